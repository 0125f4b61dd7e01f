"""An object whose parameters scikit-learn can read and change, without scikit-learn."""

from inspect import signature
from typing import Any, Self


class Parameterized:
    """Parameters are the arguments of the class's `__init__`, kept under the same names."""

    @classmethod
    def _names(cls) -> list[str]:
        return list(signature(cls).parameters)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters; those that decide results take effect at the next `fit`.

        Raises ValueError for an unknown one.
        """
        names = self._names()
        for name, value in parameters.items():
            if name not in names:
                raise ValueError(f"invalid parameter {name!r}; valid: {', '.join(names)}")
            setattr(self, name, value)
        return self
