"""The settings: their model, where they come from, and how they are loaded."""

from streams.settings.model import (
    EmbeddingSettings,
    KafkaSettings,
    MetricsSettings,
    MilvusSettings,
    ProjectionSettings,
    RagSettings,
    SearchSettings,
    Settings,
    StageSettings,
    TopicSettings,
    TracingSettings,
)

__all__ = [
    "EmbeddingSettings",
    "KafkaSettings",
    "MetricsSettings",
    "MilvusSettings",
    "ProjectionSettings",
    "RagSettings",
    "SearchSettings",
    "Settings",
    "StageSettings",
    "TopicSettings",
    "TracingSettings",
]
