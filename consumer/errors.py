"""The errors of a consumer."""

from domain.errors import Exit, Expected


class ConsumerError(Expected):
    """A request of the consumer cannot be done; the error has a reason and a remedy.

    Example::

        try:
            order = network.submit("my-job", regions=["mars"])
        except assay.ConsumerError as error:
            print(error.reason, error.remedy)
    """


class InvalidId(ConsumerError):
    """A text is not the id of an order or a bid."""

    exit_code = Exit.USAGE


class StillWaiting(ConsumerError):
    """The caller's time limit passed first; calling the same method again continues to wait.

    Example::

        try:
            order.wait(seconds=60)
        except assay.StillWaiting:
            order.wait(seconds=3600)
    """

    exit_code = Exit.TIMED_OUT
