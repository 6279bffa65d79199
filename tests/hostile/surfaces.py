"""All surfaces through which input arrives."""

from __future__ import annotations

from tests.hostile import built, commands, files, models, texts

EVERY = (*texts.SURFACES, *commands.SURFACES, *files.SURFACES, *models.SURFACES, *built.SURFACES)
SURFACES = {surface.name: surface for surface in EVERY}
