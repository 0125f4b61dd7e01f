"""The recurrence and other products in bf16 on Intel AMX."""
