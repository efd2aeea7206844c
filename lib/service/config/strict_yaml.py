"""YAML in which no field is given twice."""

from typing import Any

import yaml

from lib.service.config.fields import ConfigError


def parse(text: bytes) -> Any:
    """What stands in a file. ConfigError with line and column when it is no YAML, or has a field twice."""
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise ConfigError([f"{place}{error.problem}"]) from error
    except RecursionError as error:
        raise ConfigError(["it is nested too deep"]) from error
    except (yaml.YAMLError, ValueError) as error:  # of a date that there never was, say
        raise ConfigError([str(error)]) from error


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # the fast one, if it is there
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Any:
        seen = set()
        for key in [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]:
            if key.value in seen:
                raise yaml.MarkedYAMLError(problem=f"{key.value} is given twice", problem_mark=key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)
