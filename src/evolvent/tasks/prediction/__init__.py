"""What a trained classifier is asked with and answers: files and arrays in, classes and confidences out."""

from evolvent.tasks.prediction.answers import MaskPredictions, Predictions
from evolvent.tasks.prediction.images import ImageForm, ImagePredictor
from evolvent.tasks.prediction.loading import load_predictor
from evolvent.tasks.prediction.points import PointForm, PointPredictor
from evolvent.tasks.prediction.predictor import FILE

__all__ = [
    "FILE",
    "ImageForm",
    "ImagePredictor",
    "MaskPredictions",
    "PointForm",
    "PointPredictor",
    "Predictions",
    "load_predictor",
]
