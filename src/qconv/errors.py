"""The errors that qconv raises besides `ValueError`, which always means that the problem as stated is wrong; and a
warning."""


class Infeasible(Exception):
    """This config cannot serve this problem on this target. The message gives the value, the limit and the remedy.

    `excess` is the fraction of the limit by which the value misses it, so that a search can learn from it.
    """

    def __init__(self, message: str, excess: float = 1.0) -> None:
        super().__init__(message)
        self.excess = excess


class TooManyImages(ValueError):
    """A tensor has more elements than kernels count. With fewer images at a time it would not."""


class CompileError(Exception):
    """A compiler rejected a generated source, or no compiler is installed. The message shows the line or the remedy."""


class CompileTimeout(CompileError):
    """A compiler exceeded its time limit."""


class CompilerKilled(CompileError):
    """A compiler was killed from outside, for example by the kernel when memory ran out. The source may be fine."""


class CacheError(Exception):
    """Other users can write to a folder of the cache. The message names the folder, the rule and the remedy."""


class LaunchError(Exception):
    """A kernel was launched and failed: an illegal address, a divergent barrier or a time-out."""


class KernelMissing(Exception):
    """Compilation is disabled (QCONV_NO_COMPILE=1) and the binary is not cached. The message names the command that
    builds it."""


class DatabaseError(Exception):
    """A tuning database, or a row of it, cannot be trusted. The message names the file and the row."""


class DatabaseCut(DatabaseError):
    """A file of a tuning database is truncated."""


class PluginError(Exception):
    """A family, an op or a search strategy of another package cannot be used. The message names the package, the reason
    and the remedy."""


class WrongOutput(Exception):
    """A kernel's output differs from the oracle's. The message says where, and which random data shows it."""


class DeviceError(Exception):
    """The requested device does not exist here, or a package that it needs is not installed."""


class Unshippable(ValueError):
    """A network needs what a folder that is shipped does not have."""


class SlowNetwork(UserWarning):
    """A session leaves layers to ONNX Runtime, or more than a twentieth of its multiplications in floats. The message
    has the weightiest causes, and what can be done about them."""


def first_line(error: Exception) -> str:
    """Return the first line of another library's error, to be quoted in a message of this project."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
