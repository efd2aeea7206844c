"""Lesson 22: the scheduler of lesson 21, with plugins."""

import framework
from plugins import Approval, FewestPods, NodeNumber, NodeResourcesFit, NodeUnschedulable

framework.run(NodeUnschedulable(), NodeResourcesFit(), NodeNumber(), FewestPods(), Approval())
