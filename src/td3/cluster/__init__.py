"""Populations over the nodes of a Ray cluster, each in its own run folder."""
