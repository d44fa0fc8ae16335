"""A wheel is for the system and processor that it was made on: it holds native kernels. All else: pyproject.toml."""

from sysconfig import get_platform

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel


class PlatformWheel(bdist_wheel):
    """Names the platform; any version of Python 3 will do, for the kernels are no modules of Python."""

    def finalize_options(self) -> None:
        """Take this machine's name where no other is asked for."""
        self.plat_name = self.plat_name or get_platform()
        super().finalize_options()


setup(cmdclass={"bdist_wheel": PlatformWheel})
