"""Lesson 23: the scheduler of lesson 22, which evicts pods for more important ones."""

import framework
from plugins import Approval, FewestPods, NodeNumber, NodeResourcesFit, NodeUnschedulable
from preemption import DefaultPreemption

plugins = NodeUnschedulable(), NodeResourcesFit(), DefaultPreemption(), NodeNumber(), FewestPods(), Approval()
framework.run(*plugins)
