"""The methods by name, each a function of `explain`'s registry."""

from __future__ import annotations

from torch import Tensor

from dynamask_mlflow.masks.smoothing import smooth_in_time
from dynamask_mlflow.saliency import gradients, occlusion, sampling
from dynamask_mlflow.saliency.adapter import Scores, Setting, as_method
from dynamask_mlflow.saliency.background import background_in_force, background_or
from dynamask_mlflow.saliency.extrmask import Descent, extremal_mask
from dynamask_mlflow.saliency.fit import feature_importance_in_time
from dynamask_mlflow.saliency.generator import train_generator
from dynamask_mlflow.saliency.retain import retain_scores, train_retain


def _ig(s: Setting) -> Tensor:
    return gradients.integrated_gradients(s.question, s.x, s.baseline, steps=s.config.steps or 50)


def _gs(s: Setting) -> Tensor:
    data = background_in_force(s.x)
    pool = None if data is None else data.x.to(s.x.device)
    return gradients.gradient_shap(s.question, s.x, s.baseline, pool, seed=s.config.seed, samples=s.config.steps or 50)


def _dl(s: Setting) -> Tensor:
    return gradients.deep_lift(s.question, s.x, s.baseline)


def _fo(s: Setting) -> Tensor:
    return occlusion.feature_occlusion(s.question, s.x, s.baseline)


def _afo(s: Setting) -> Tensor:
    data = background_in_force(s.x)
    pool = None if data is None else data.x.to(s.x.device)
    return occlusion.augmented_feature_occlusion(
        s.question, s.x, pool, s.exists, seed=s.config.seed, draws=s.config.steps or 5
    )


def _fp(s: Setting) -> Tensor:
    return occlusion.feature_permutation(s.question, s.x, s.exists, seed=s.config.seed, draws=s.config.steps or 5)


def _svs(s: Setting) -> Tensor:
    return sampling.shapley_value_sampling(
        s.question, s.x, s.baseline, seed=s.config.seed, samples=s.config.steps or 10
    )


def _lime(s: Setting) -> Tensor:
    return sampling.lime(s.question, s.x, s.baseline, seed=s.config.seed, samples=s.config.steps or 500)


def _random(s: Setting) -> Tensor:
    return sampling.random_scores(s.x, seed=s.config.seed)


def _fit(s: Setting) -> Tensor:
    data = background_or(s.x)
    seed = s.config.seed
    generator = data.remember(("generator", seed), lambda: train_generator(data.x.to(s.x.device), seed=seed))
    return feature_importance_in_time(s.question, s.x, generator, seed=seed, samples=s.config.steps or 10)


def _retain(s: Setting) -> Tensor:
    data = background_or(s.x)
    seed, steps = s.config.seed, s.config.steps or 300
    key = ("retain", id(s.question.module), seed, steps)
    model = data.remember(key, lambda: train_retain(s.question, data.x.to(s.x.device), seed=seed, steps=steps))
    return retain_scores(s.question, s.x, model)


def _extrmask(s: Setting) -> Tensor:
    how = Descent(
        seed=s.config.seed,
        steps=s.config.steps or 500,
        learning_rate=s.config.learning_rate or 0.01,
        loss=s.config.loss,
        deletion=s.config.deletion,
    )
    return extremal_mask(s.question, s.x, s.exists, how, s.tick)


def _absolute(scores: Scores) -> Scores:
    return lambda setting: scores(setting).abs()


def _smooth(scores: Scores) -> Scores:
    return lambda setting: smooth_in_time(scores(setting), 2.0, setting.exists, reach=3.0)


fo = as_method(_fo)
afo = as_method(_afo)
fp = as_method(_fp)
ig = as_method(_absolute(_ig))
gs = as_method(_absolute(_gs))
svs = as_method(_absolute(_svs))
lime = as_method(_absolute(_lime))
dl = as_method(_absolute(_dl))
# IG from the channel's mean over time, which is what CE, ACC and CPD put in place of a cell; and IG smoothed over time.
ig_mean = as_method(_absolute(_ig), baseline="time_mean")
ig_smooth = as_method(_smooth(_absolute(_ig)))
retain = as_method(_retain)
fit = as_method(_fit)
extrmask = as_method(_extrmask, is_mask=True)
random = as_method(_random)

# Credit with its sign: cells that speak against the chosen class come last. What is best to delete is found
# by these.
ig_signed = as_method(_ig)
ig_mean_signed = as_method(_ig, baseline="time_mean")
gs_signed = as_method(_gs)
svs_signed = as_method(_svs)
lime_signed = as_method(_lime)
dl_signed = as_method(_dl)
