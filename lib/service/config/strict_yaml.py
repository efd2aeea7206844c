"""Reads YAML, and finds fields that are given twice."""

from typing import Any

import yaml

from lib.kube.bounded_files import Loader, TooMuchError, check_yaml
from lib.service.config.fields import ConfigError


def parse(text: bytes) -> tuple[Any, list[str]]:
    """Parse a file; returns its content, and the fields that are given twice, with line and column.

    ConfigError, with line and column, when it isn't YAML.
    """
    try:
        check_yaml(text)
        loader = _Loader(text)
        return loader.get_single_data(), loader.twice
    except yaml.MarkedYAMLError as error:
        place = _place(error.problem_mark) if error.problem_mark else ""
        raise ConfigError([f"{place}{error.problem}"]) from error
    except (TooMuchError, yaml.YAMLError, ValueError) as error:  # ValueError: a number of 5,000 digits
        raise ConfigError([str(error)]) from error


def _place(mark: Any) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}: "


class _Loader(Loader):
    def __init__(self, text: bytes) -> None:
        super().__init__(text)
        self.twice: list[str] = []

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Any:
        seen = set()
        for key in [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]:
            if key.value in seen:
                self.twice.append(f"{_place(key.start_mark)}{key.value} is given twice")
            seen.add(key.value)
        return super().construct_mapping(node, deep)
