"""The errors that qconv raises beside `ValueError` (which always means: the problem as asked for is wrong)."""


class Infeasible(Exception):
    """This config cannot serve this problem on this target. The message says the value, the limit and the remedy.

    `excess` tells by how much the limit is missed, as a fraction of it, so that a search can learn from it.
    """

    def __init__(self, message: str, excess: float = 1.0) -> None:
        super().__init__(message)
        self.excess = excess


class CompileError(Exception):
    """A compiler refused a generated source, or there is no compiler. Shows the failing line or the remedy."""


class CompileTimeout(CompileError):
    """A compiler did not end in the time that it was allowed."""


class CompilerKilled(CompileError):
    """A compiler was ended from outside, as by the kernel where memory is short: it says nothing of the source."""


class CacheError(Exception):
    """A folder of the cache that others could have written into. Names the folder, the rule and the remedy."""


class LaunchError(Exception):
    """A kernel was launched and failed: an illegal address, a divergent barrier, a time-out."""


class KernelMissing(Exception):
    """Compiling is forbidden (QCONV_NO_COMPILE=1) and the binary is not cached. Names the command that builds it."""


class DatabaseError(Exception):
    """A tuning database, or a row of it, that cannot be trusted. Names the file and the row."""


class DatabaseCut(DatabaseError):
    """A file of a tuning database of which the end is missing."""


class WrongOutput(Exception):
    """A kernel's output is not the oracle's. Says where, and which random data show it."""


class DeviceError(Exception):
    """The device asked for does not exist here, or what it needs is not installed."""


def first_line(error: Exception) -> str:
    """What an error of somebody else's says, where ours quotes it."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
