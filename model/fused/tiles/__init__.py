"""The recurrence and other products in bf16 on matrix units: Intel's AMX."""
