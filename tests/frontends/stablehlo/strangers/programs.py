"""Programs other than networks: equations, distributions, sampling, optimization, physics, images, search."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.frontends.stablehlo.strangers.case import Case, Cases, numbers, tokens

KEY = np.array([0, 7], np.uint32)
"""What keys of the default generator are made of."""


def cases() -> Cases:
    for name in ("Euler", "Heun", "Tsit5", "Dopri5", "Dopri8", "Kvaerno5", "ImplicitEuler"):
        yield f"diffrax-{name}", partial(_diffrax, name)
    yield "diffrax-gradient", _diffrax_gradient
    yield "diffrax-neural", _diffrax_neural
    for name, arguments in DISTRAX.items():
        yield f"distrax-{name}", partial(_distrax, name, arguments)
    for name, given in TFP.items():
        yield f"tfp-{name}", partial(_tfp, name, given)
    yield "tfp-bijectors", _bijectors
    yield "tfp-hmc", _tfp_hmc
    for name in OPTAX_LOSSES:
        yield f"optax-{name}", partial(_optax_loss, name)
    for name in OPTIMIZERS:
        yield f"optax-{name}", partial(_optimizer, name)
    for name in ("hmc", "nuts", "mala", "elliptical"):
        yield f"blackjax-{name}", partial(_blackjax, name)
    yield "numpyro-svi", _numpyro_svi
    yield "numpyro-nuts", _numpyro_nuts
    yield "numpyro-density", _numpyro_density
    for name in ("LBFGS", "GradientDescent", "ProjectedGradient", "NonlinearCG", "Bisection"):
        yield f"jaxopt-{name}", partial(_jaxopt, name)
    for name in ("CG", "GMRES", "BiCGStab", "LU", "QR", "SVD", "Cholesky"):
        yield f"lineax-{name}", partial(_lineax, name)
    for name in ("Newton", "LevenbergMarquardt", "BFGS", "NelderMead"):
        yield f"optimistix-{name}", partial(_optimistix, name)
    for name, settings in IMAGES.items():
        yield f"dm_pix-{name}", partial(_image, name, settings)
    for name in ("vtrace", "lambda_returns", "q_learning", "policy_gradient", "categorical_td"):
        yield f"rlax-{name}", partial(_rlax, name)
    yield "mctx-muzero", partial(_mctx, "muzero_policy")
    yield "mctx-gumbel", partial(_mctx, "gumbel_muzero_policy")
    yield "jax_md-lennard_jones", _lennard_jones
    yield "jax_md-nve", _nve
    for name in ("CartPole-v1", "Pendulum-v1", "Acrobot-v1", "Breakout-MinAtar", "SpaceInvaders-MinAtar"):
        yield f"gymnax-{name}", partial(_gymnax, name)
    yield "mjx-pendulum", _mjx
    for backend in ("spring", "positional", "generalized"):
        yield f"brax-{backend}", partial(_brax, backend)
    yield "tinygp-predict", _tinygp
    yield "s2fft-forward", _s2fft


def _diffrax(name: str) -> Case:
    import diffrax

    def run(state: Any, rate: Any) -> Any:
        term = diffrax.ODETerm(lambda t, y, rate: jnp.stack([y[1], rate * (1 - y[0] ** 2) * y[1] - y[0]]))
        is_fixed = name in ("Euler", "Heun")
        steps = diffrax.ConstantStepSize() if is_fixed else diffrax.PIDController(rtol=1e-4, atol=1e-6)
        return diffrax.diffeqsolve(
            term, getattr(diffrax, name)(), 0.0, 1.0, 0.05, state, rate, stepsize_controller=steps, max_steps=256,
            saveat=diffrax.SaveAt(ts=jnp.linspace(0, 1, 5)), throw=False).ys

    return Case(run, (np.array([1.0, 0.0], np.float32), np.float32(0.5)))


def _diffrax_gradient() -> Case:
    import diffrax

    def loss(state: Any) -> Any:
        term = diffrax.ODETerm(lambda t, y, _: -y * jnp.sin(t))
        found = diffrax.diffeqsolve(term, diffrax.Tsit5(), 0.0, 1.0, 0.1, state, max_steps=64, throw=False).ys
        return jnp.sum(found**2)

    return Case(jax.value_and_grad(loss), (numbers(3),))


def _diffrax_neural() -> Case:
    import diffrax
    import equinox as eqx

    field = eqx.nn.MLP(3, 3, 8, 2, activation=jnp.tanh, key=jax.random.key(0))

    def run(state: Any) -> Any:
        term = diffrax.ODETerm(lambda t, y, _: field(y))
        return diffrax.diffeqsolve(term, diffrax.Heun(), 0.0, 1.0, 0.1, state, throw=False).ys

    return Case(jax.vmap(run), (numbers(4, 3),), ("batch, 3",))


DISTRAX: dict[str, tuple[Any, ...]] = {
    "Normal": (0.5, 2.0), "Laplace": (0.5, 2.0), "Logistic": (0.5, 2.0), "Gumbel": (0.5, 2.0), "Gamma": (2.0, 1.5),
    "Beta": (2.0, 1.5), "Uniform": (0.0, 2.0), "Bernoulli": (0.3,), "LogStddevNormal": (0.5, 0.1),
    "Categorical": (np.array([0.1, 0.2, 0.3], np.float32),), "Softmax": (np.array([0.1, 0.2, 0.3], np.float32),),
    "Dirichlet": (np.array([1.0, 2.0, 0.5], np.float32),), "VonMises": (0.3, 2.0),
    "MultivariateNormalDiag": (np.zeros(3, np.float32), np.array([1.0, 0.5, 2.0], np.float32)),
    "MultivariateNormalFullCovariance": (np.zeros(3, np.float32), np.eye(3, dtype=np.float32) * 2 + 0.3),
}


def _distrax(name: str, arguments: tuple[Any, ...]) -> Case:
    import distrax

    def run(key: Any, *given: Any) -> Any:
        distribution = getattr(distrax, name)(*given)
        samples, densities = distribution.sample_and_log_prob(seed=key, sample_shape=(6,))
        more = [distribution.entropy()] if name not in ("LogStddevNormal",) else []
        return samples, densities, *more

    return Case(run, (KEY, *map(np.float32, arguments)))


TFP: dict[str, tuple[float, ...]] = {
    "StudentT": (3.0, 0.5, 2.0), "Weibull": (2.0, 1.0), "Pareto": (3.0, 1.0), "Poisson": (2.5,), "Binomial": (6.0, 0.3),
    "NegativeBinomial": (3.0, 0.4), "Cauchy": (0.0, 1.0), "HalfNormal": (1.5,), "InverseGamma": (3.0, 2.0),
    "Kumaraswamy": (2.0, 1.5), "LogNormal": (0.2, 0.5), "TruncatedNormal": (0.0, 1.0, -1.0, 2.0), "Exponential": (1.3,),
    "Triangular": (0.0, 1.0, 0.4), "InverseGaussian": (1.0, 2.0), "Moyal": (0.5, 1.0),
}


def _tfp(name: str, arguments: tuple[float, ...]) -> Case:
    from tensorflow_probability.substrates import jax as tfp

    def run(key: Any, *given: Any) -> Any:
        if name == "Binomial":
            distribution = tfp.distributions.Binomial(given[0], probs=given[1])
        elif name == "NegativeBinomial":
            distribution = tfp.distributions.NegativeBinomial(given[0], probs=given[1])
        else:
            distribution = getattr(tfp.distributions, name)(*given)
        samples = distribution.sample(6, seed=key)
        return samples, distribution.log_prob(samples), distribution.cdf(samples) if name != "Moyal" else distribution.mean()

    return Case(run, (KEY, *map(np.float32, arguments)))


def _bijectors() -> Case:
    from tensorflow_probability.substrates import jax as tfp

    bijectors = tfp.bijectors

    def run(x: Any) -> Any:
        chain = bijectors.Chain([
            bijectors.Softplus(), bijectors.Shift(0.3), bijectors.Scale(2.0), bijectors.SinhArcsinh(0.2, 1.1)])
        y = chain.forward(x)
        return (
            y, chain.inverse(y), chain.forward_log_det_jacobian(x, 0), bijectors.CorrelationCholesky().forward(x[0]),
            bijectors.FillScaleTriL().forward(x[0]), bijectors.SoftmaxCentered().forward(x))

    return Case(run, (numbers(2, 6),))


def _tfp_hmc() -> Case:
    from tensorflow_probability.substrates import jax as tfp

    def run(key: Any, state: Any) -> Any:
        kernel = tfp.mcmc.HamiltonianMonteCarlo(lambda x: -0.5 * jnp.sum(x**2), 0.3, 3)
        return tfp.mcmc.sample_chain(5, state, kernel=kernel, trace_fn=None, seed=key)

    return Case(run, (KEY, numbers(3)))


OPTAX_LOSSES = (
    "huber_loss", "l2_loss", "log_cosh", "cosine_similarity", "sigmoid_binary_cross_entropy", "softmax_cross_entropy",
    "kl_divergence", "hinge_loss", "sigmoid_focal_loss", "ctc_loss", "softmax_cross_entropy_with_integer_labels", "smooth_labels")


def _optax_loss(name: str) -> Case:
    import optax

    a, b = numbers(3, 5), np.abs(numbers(2, 3, 5)[1])
    b /= b.sum(-1, keepdims=True)
    function = getattr(optax, name)
    if name == "ctc_loss":
        frames, labels = numbers(2, 8, 5), tokens(2, 3) % 4 + 1
        none = jnp.zeros((2, 8)), jnp.zeros((2, 3))
        return Case(jax.value_and_grad(lambda x, labels: function(x, none[0], labels, none[1]).sum()), (frames, labels))
    if name == "smooth_labels":
        return Case(partial(function, alpha=0.1), (b,))
    if name.endswith("integer_labels"):
        return Case(jax.value_and_grad(lambda x, y: function(x, y).mean()), (a, tokens(3) % 5))
    a = np.asarray(jax.nn.log_softmax(a)) if name == "kl_divergence" else a
    return Case(jax.value_and_grad(lambda x, y: function(x, y).mean()), (a, b))


OPTIMIZERS = (
    "adam", "adamw", "sgd", "rmsprop", "adagrad", "adafactor", "lamb", "lion", "novograd", "radam", "yogi", "sm3", "adabelief",
    "lbfgs", "fromage", "amsgrad", "adadelta", "rprop", "polyak_sgd")


def _optimizer(name: str) -> Case:
    import optax

    optimizer = getattr(optax, name)(*(() if name in ("lbfgs", "polyak_sgd", "adadelta") else (0.01,)))
    weights = {"w": numbers(4, 3), "b": numbers(3)}
    x = numbers(5, 4)

    def loss(weights: Any) -> Any:
        return jnp.mean((jnp.tanh(x @ weights["w"] + weights["b"]) - 0.5) ** 2)

    def run(weights: Any, state: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(weights)
        more: dict[str, Any] = {"value": value} if name in ("lbfgs", "polyak_sgd") else {}
        more |= {"grad": gradients, "value_fn": loss} if name == "lbfgs" else {}
        updates, state = optimizer.update(gradients, state, weights, **more)
        return optax.apply_updates(weights, updates), state

    return Case(run, (weights, optimizer.init(weights)))


def _density(x: Any) -> Any:
    return -0.5 * jnp.sum(x**2 * jnp.array([1.0, 2.0, 0.5])) - 0.1 * jnp.sum(x) ** 4


def _blackjax(name: str) -> Case:
    import blackjax

    mass = jnp.ones(3)
    sampler = {
        "hmc": lambda: blackjax.hmc(_density, 0.2, mass, 4),
        "nuts": lambda: blackjax.nuts(_density, 0.2, mass, max_num_doublings=4),
        "mala": lambda: blackjax.mala(_density, 0.05),
        "elliptical": lambda: blackjax.elliptical_slice(_density, mean=jnp.zeros(3), cov=jnp.eye(3))}[name]()

    def run(key: Any, start: Any) -> Any:
        def step(state: Any, key: Any) -> Any:
            state, _ = sampler.step(key, state)
            return state, state.position

        return jax.lax.scan(step, sampler.init(start), jax.random.split(key, 4))[1]

    return Case(run, (KEY, numbers(3)))


def _regression(x: Any, y: Any) -> None:
    import numpyro
    import numpyro.distributions as dist

    weights = numpyro.sample("weights", dist.Normal(0, 1).expand([x.shape[1]]).to_event(1))
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    numpyro.sample("y", dist.StudentT(4.0, x @ weights, scale), obs=y)


def _numpyro_svi() -> Case:
    import numpyro
    from numpyro.infer import SVI, Trace_ELBO
    from numpyro.infer.autoguide import AutoNormal

    svi = SVI(_regression, AutoNormal(_regression), numpyro.optim.Adam(0.01), Trace_ELBO())

    def run(key: Any, x: Any, y: Any) -> Any:
        state = svi.init(key, x, y)
        state, loss = svi.update(state, x, y)
        return svi.get_params(state), loss

    return Case(run, (KEY, numbers(6, 3), numbers(6)))


def _numpyro_nuts() -> Case:
    from numpyro.infer import NUTS

    def run(key: Any, x: Any, y: Any) -> Any:
        kernel = NUTS(_regression, max_tree_depth=3)
        state = kernel.init(key, 0, None, (x, y), {})
        return kernel.sample(state, (x, y), {}).z

    return Case(run, (KEY, numbers(6, 3), numbers(6)))


def _numpyro_density() -> Case:
    from numpyro.infer.util import log_density

    def run(weights: Any, scale: Any, x: Any, y: Any) -> Any:
        return log_density(_regression, (x, y), {}, {"weights": weights, "scale": scale})[0]

    return Case(jax.value_and_grad(run, (0, 1)), (numbers(3), np.float32(0.7), numbers(6, 3), numbers(6)))


def _quadratic(x: Any) -> Any:
    return jnp.sum((x - jnp.arange(3.0)) ** 2) + 0.1 * jnp.sum(x**4)


def _jaxopt(name: str) -> Case:
    import jaxopt

    solvers: dict[str, Any] = {
        "LBFGS": lambda: jaxopt.LBFGS(_quadratic, maxiter=3),
        "GradientDescent": lambda: jaxopt.GradientDescent(_quadratic, maxiter=3),
        "NonlinearCG": lambda: jaxopt.NonlinearCG(_quadratic, maxiter=3),
        "ProjectedGradient": lambda: jaxopt.ProjectedGradient(_quadratic, jaxopt.projection.projection_non_negative, maxiter=3)}
    if name == "Bisection":
        solver = jaxopt.Bisection(lambda x: x**3 - x - 1, 1.0, 2.0, maxiter=20, check_bracket=False)
        return Case(lambda x: solver.run(x).params, (np.float32(1.3),))
    return Case(lambda x: solvers[name]().run(x, *([None] if name == "ProjectedGradient" else [])).params, (numbers(3),))


def _lineax(name: str) -> Case:
    import lineax

    def run(matrix: Any, vector: Any) -> Any:
        tags = lineax.positive_semidefinite_tag
        solver = getattr(lineax, name)
        solver = solver(rtol=1e-5, atol=1e-5) if name in ("CG", "GMRES", "BiCGStab") else solver()
        return lineax.linear_solve(lineax.MatrixLinearOperator(matrix, tags), vector, solver, throw=False).value

    a = numbers(4, 4)
    return Case(run, (a @ a.T + np.eye(4, dtype=np.float32), numbers(4)))


def _optimistix(name: str) -> Case:
    import optimistix

    solver = getattr(optimistix, name)(rtol=1e-4, atol=1e-4)

    def run(x: Any) -> Any:
        if name == "Newton":
            return optimistix.root_find(lambda y, _: jnp.tanh(y) - 0.3 * y + 0.1, solver, x, throw=False).value
        if name == "LevenbergMarquardt":
            return optimistix.least_squares(lambda y, _: (y - jnp.arange(3.0)) * (1 + y**2), solver, x, throw=False).value
        return optimistix.minimize(lambda y, _: _quadratic(y), solver, x, throw=False, max_steps=3).value

    return Case(run, (numbers(3),))


IMAGES: dict[str, dict[str, Any]] = {
    "adjust_brightness": {"delta": 0.2}, "adjust_contrast": {"factor": 1.3}, "adjust_gamma": {"gamma": 0.7},
    "adjust_hue": {"delta": 0.1}, "adjust_saturation": {"factor": 1.4}, "gaussian_blur": {"sigma": 1.0, "kernel_size": 3},
    "rgb_to_hsl": {}, "rgb_to_hsv": {}, "rot90": {}, "rotate": {"angle": 0.3}, "solarize": {"threshold": 0.5},
    "extract_patches": {"sizes": (1, 3, 3, 1), "strides": (1, 2, 2, 1), "rates": (1, 1, 1, 1), "padding": "SAME"},
    "depth_to_space": {"block_size": 2}, "resize_with_crop_or_pad": {"target_height": 12, "target_width": 6},
    "affine_transform": {"matrix": np.array([[0.9, 0.1, 0], [-0.1, 0.9, 0], [0, 0, 1.0]], np.float32)},
    "elastic_deformation": {"alpha": 2.0, "sigma": 1.0}, "random_flip_left_right": {}, "random_crop": {"crop_sizes": (4, 4, 3)},
}


def _image(name: str, settings: dict[str, Any]) -> Case:
    import dm_pix

    function = getattr(dm_pix, name)
    image = np.random.default_rng(0).random((8, 8, 12 if name == "depth_to_space" else 3)).astype(np.float32)
    if name == "extract_patches":
        image = image[None]
    if name.startswith(("random", "elastic")):
        return Case(lambda key, x: function(key, x, **settings), (KEY, image))
    return Case(partial(function, **settings), (image,))


def _rlax(name: str) -> Case:
    import rlax

    values, rewards, discounts = numbers(8), numbers(7), np.full(7, 0.9, np.float32)
    if name == "vtrace":
        return Case(lambda v, r, d, rho: rlax.vtrace(v[:-1], v[1:], r, d, rho), (values, rewards, discounts, np.abs(rewards)))
    if name == "lambda_returns":
        return Case(lambda r, d, v: rlax.lambda_returns(r, d, v[1:], 0.8), (rewards, discounts, values))
    if name == "q_learning":
        return Case(
            jax.vmap(rlax.q_learning), (numbers(7, 3), tokens(7) % 3, rewards, discounts, numbers(7, 3)))
    if name == "policy_gradient":
        return Case(
            jax.value_and_grad(rlax.policy_gradient_loss), (numbers(7, 3), tokens(7) % 3, rewards, np.ones(7, np.float32)))
    atoms = np.linspace(-1, 1, 5).astype(np.float32)
    return Case(
        lambda a, r, d, b: rlax.categorical_td_learning(atoms, a, r, d, atoms, b),
        (numbers(5), np.float32(0.3), np.float32(0.9), numbers(5)))


def _mctx(name: str) -> Case:
    import mctx

    mix = numbers(4, 4)

    def run(key: Any, embedding: Any) -> Any:
        def step(params: Any, key: Any, action: Any, state: Any) -> Any:
            state = jnp.tanh(state @ mix + action[:, None])
            out = mctx.RecurrentFnOutput(
                reward=state[:, 0], discount=jnp.full(state.shape[0], 0.9), prior_logits=state[:, :3], value=state[:, 3])
            return out, state

        root = mctx.RootFnOutput(prior_logits=embedding[:, :3], value=embedding[:, 3], embedding=embedding)
        found = getattr(mctx, name)((), key, root, step, num_simulations=6)
        return found.action, found.action_weights

    return Case(run, (KEY, numbers(2, 4)))


def _positions() -> np.ndarray:
    grid = np.stack(np.meshgrid(*[np.arange(3)] * 2), -1).reshape(-1, 2) * 1.2
    return np.asarray(grid + 0.05 * numbers(9, 2), np.float32)


def _lennard_jones() -> Case:
    from jax_md import energy, quantity, space

    displacement, _ = space.periodic(4.0)
    potential = energy.lennard_jones_pair(displacement)
    return Case(lambda r: (potential(r), quantity.force(potential)(r)), (_positions(),))


def _nve() -> Case:
    from jax_md import energy, simulate, space

    displacement, shift = space.periodic(4.0)
    init, step = simulate.nve(energy.soft_sphere_pair(displacement), shift, 1e-3)

    def run(key: Any, r: Any) -> Any:
        return jax.lax.fori_loop(0, 5, lambda _, s: step(s), init(key, r, kT=0.1)).position

    return Case(run, (KEY, _positions()))


def _gymnax(name: str) -> Case:
    import gymnax

    environment, parameters = gymnax.make(name)

    def run(key: Any, action: Any) -> Any:
        observation, state = environment.reset(key, parameters)
        return observation, environment.step(key, state, action, parameters)[:4]

    return Case(run, (KEY, np.float32(0.3) if name.startswith("Pendulum") else np.int32(1)))


_PENDULUM = """<mujoco><option timestep="0.01" iterations="2"/><worldbody><geom type="plane" size="1 1 0.1"/>
<body pos="0 0 0.5"><joint type="hinge" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.05"/>
<body pos="0.3 0 0"><joint type="hinge" axis="0 1 0"/><geom type="sphere" size="0.08" pos="0.2 0 0"/></body></body>
</worldbody></mujoco>"""


def _mjx() -> Case:
    import mujoco
    from mujoco import mjx

    model = mjx.put_model(mujoco.MjModel.from_xml_string(_PENDULUM))

    def run(position: Any, speed: Any) -> Any:
        data = mjx.make_data(model).replace(qpos=position, qvel=speed)
        data = mjx.step(model, data)
        return data.qpos, data.qvel, data.qacc

    return Case(run, (np.array([0.3, -0.2], np.float32), np.array([0.1, 0.0], np.float32)))


def _brax(backend: str) -> Case:
    from brax import envs

    environment = envs.get_environment("inverted_pendulum", backend=backend)

    def run(key: Any, action: Any) -> Any:
        state = environment.step(environment.reset(key), action)
        return state.obs, state.reward, state.done

    return Case(run, (KEY, np.array([0.3], np.float32)))


def _tinygp() -> Case:
    import tinygp

    def run(x: Any, y: Any, at: Any) -> Any:
        process = tinygp.GaussianProcess(1.5 * tinygp.kernels.Matern32(0.8) + tinygp.kernels.Constant(0.1), x, diag=0.1)
        found = process.condition(y, at)
        return found.log_probability, found.gp.loc, found.gp.variance

    return Case(run, (np.sort(numbers(8)), numbers(8), np.linspace(-1, 1, 5).astype(np.float32)))


def _s2fft() -> Case:
    import s2fft

    return Case(partial(s2fft.forward_jax, L=4), (numbers(4, 7),))
