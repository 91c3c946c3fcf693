"""What a search may be limited to: an SQL expression over metadata, a path, or ids."""

from colrank.filters.table import MetadataTable, Where

__all__ = ["MetadataTable", "Where"]
