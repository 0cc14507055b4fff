from mmagen.api import build as build
from mmagen.api import compile as compile
from mmagen.api import inspect as inspect
from mmagen.api import load_spec as load_spec
from mmagen.api import open as open
from mmagen.api import plan as plan
from mmagen.api import verify as verify
from mmagen.binding.errors import ArgumentError as ArgumentError
from mmagen.binding.errors import DeviceError as DeviceError
from mmagen.binding.kernel import Kernel as Kernel
from mmagen.binding.libraries import transposed as transposed
from mmagen.binding.sparse import Compressed as Compressed
from mmagen.core.errors import BuildError as BuildError
from mmagen.core.errors import MmagenError as MmagenError
from mmagen.core.errors import RunError as RunError
from mmagen.core.errors import SpecError as SpecError
from mmagen.core.errors import UsageError as UsageError
from mmagen.spec.model import Spec as Spec
from mmagen.verify.verdict import Verdict as Verdict

__version__: str
__all__: list[str]
