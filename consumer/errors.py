"""The errors of a consumer."""

from domain.errors import Exit, Expected


class ConsumerError(Expected):
    """An error for a consumer's request that cannot be carried out. It has a reason and a remedy.

    Example::

        try:
            order = network.submit("my-job", regions=["mars"])
        except assay.ConsumerError as error:
            print(error.reason, error.remedy)
    """


class InvalidId(ConsumerError):
    """An error for a text that is not the id of an order or of a bid."""

    exit_code = Exit.USAGE


class StillWaiting(ConsumerError):
    """An error for a wait that reached the caller's time limit. To continue waiting, call the same method again.

    Example::

        try:
            order.wait(seconds=60)
        except assay.StillWaiting:
            order.wait(seconds=3600)
    """

    exit_code = Exit.TIMED_OUT
