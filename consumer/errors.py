"""The errors of a consumer."""

from domain.errors import Exit, Expected


class ConsumerError(Expected):
    """Something the consumer asked for cannot be done: the reason and the remedy, one sentence each.

    Example::

        try:
            order = network.submit("my-job", regions=["mars"])
        except assay.ConsumerError as error:
            print(error.reason, error.remedy)
    """


class InvalidId(ConsumerError):
    """A text that cannot be the id of an order or a bid."""

    exit_code = Exit.USAGE


class StillWaiting(ConsumerError):
    """A deadline of the caller's passed before it happened; the same call goes on where this one stopped.

    Example::

        try:
            order.wait(seconds=60)
        except assay.StillWaiting:
            order.wait(seconds=3600)
    """

    exit_code = Exit.TIMED_OUT
