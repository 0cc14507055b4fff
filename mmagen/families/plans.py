"""The union of the plan types of all registered families."""

from __future__ import annotations

from mmagen.families.instruction.model import InstructionPlan
from mmagen.families.peak.model import PeakPlan
from mmagen.plan.plans import GemmPlan, MicroPlan, OwnershipPlan

Plan = OwnershipPlan | MicroPlan | GemmPlan | InstructionPlan | PeakPlan
