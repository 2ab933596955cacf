"""Compares every function of the installed stand-in with a float64 reference, on a GPU.

    python check_on_gpu.py [device]

It builds nothing. One line for each call, then `N passed, N failed`; exit 1 if one failed or a
module is missing. The measure is max|error| / (eps(dtype) * max|reference|), the limit 8.
"""

import math
import sys
from pathlib import Path

# The source tree's own apex/ lies beside this script, and would hide the one that is installed.
sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != Path(__file__).parent.resolve()]

import torch
from apex._compiled import module as compiled
from torch.nn import functional as F

DEVICE = torch.device(sys.argv[1] if len(sys.argv) > 1 else "cuda:0")
LIMIT = 8.0
ALL = (torch.float32, torch.float16, torch.bfloat16)
HALF = (torch.float16, torch.bfloat16)
SHORT = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16",
         torch.float64: "fp64"}
CHUNK = 65536
results = []


def check(call, got, want, dtype=None):
    """One line: the error of `got` in units of its dtype (or the coarser `dtype`)."""
    torch.cuda.synchronize(DEVICE)
    got64, want64 = got.detach().double().cpu(), want.detach().double().cpu()
    scale = max(want64.abs().max().item(), 1e-30)
    eps = torch.finfo(dtype or got.dtype).eps
    error = math.inf
    if got64.shape == want64.shape:
        error = (got64 - want64).abs().max().item() / eps / scale
    ok = error <= LIMIT  # false for NaN, too
    results.append(ok)
    print(f"{'ok  ' if ok else 'FAIL'} {error:9.3f}  {SHORT[got.dtype]}  {call}")


def check_true(call, ok):
    results.append(bool(ok))
    print(f"{'ok  ' if ok else 'FAIL'}                  {call}")


def random(*shape, dtype=torch.float32, scale=1.0, shift=0.0):
    """The same numbers on every run; the reference starts from the rounded values."""
    x = torch.randn(*shape, generator=GENERATOR, dtype=torch.float64) * scale + shift
    return x.to(dtype).to(DEVICE)


def f64(x, grad=False):
    return x.detach().double().cpu().requires_grad_(grad)


def flag():
    return torch.zeros(1, dtype=torch.int32, device=DEVICE)


# --- references -----------------------------------------------------------------------------------


def adam_reference(g, p, m, v, step, decay=0.0, decoupled=True, lr=1e-2, eps=1e-8,
                   betas=(0.9, 0.999)):
    if not decoupled:
        g = g + decay * p
    m = betas[0] * m + (1 - betas[0]) * g
    v = betas[1] * v + (1 - betas[1]) * g * g
    update = (m / (1 - betas[0] ** step)) / ((v / (1 - betas[1] ** step)).sqrt() + eps)
    if decoupled:
        update = update + decay * p
    return p - lr * update, m, v


def rms_reference(x, dims, weight, eps):
    y = x * torch.rsqrt(x.pow(2).mean(dim=dims, keepdim=True) + eps)
    return y if weight is None else y * weight


def softmax_reference(x, scale, masked):
    """Softmax over the last dimension; a row that is masked altogether is zero."""
    return torch.nan_to_num(torch.softmax((x * scale).masked_fill(masked, -math.inf), -1), nan=0.0)


# --- the modules ----------------------------------------------------------------------------------


def check_apex_c(module):
    parts = [random(3, 4), random(5), random(2, 2, 2)]
    flat = module.flatten(parts)
    check("apex_C.flatten", flat, torch.cat([x.reshape(-1) for x in parts]))
    for view, part in zip(module.unflatten(flat, parts), parts):
        check("apex_C.unflatten", view, part)
        check_true("apex_C.unflatten gives views",
                   view.untyped_storage().data_ptr() == flat.untyped_storage().data_ptr())


def adam_lists(dtype, sizes):
    g = [random(n, dtype=dtype) for n in sizes]
    p = [random(n, dtype=dtype) for n in sizes]
    m = [random(n, scale=0.1) for n in sizes]
    v = [random(n, scale=0.1).abs() for n in sizes]
    return g, p, m, v


def check_adam_lists(call, lists, before, step, decay, decoupled, scale=1.0):
    """All tensors of a call against the reference that starts from `before`."""
    want = [adam_reference(g * scale, p, m, v, step, decay, decoupled)
            for g, p, m, v in zip(*before)]
    for i, name in enumerate(("p", "m", "v")):
        got = torch.cat([x.reshape(-1) for x in lists[i + 1]])
        check(f"{call}: {name}", got, torch.cat([w[i].reshape(-1) for w in want]))


# (chunk size, sizes): many small tensors, more chunks than one launch holds, sizes that end within
# a block, and tensors without an element.
ADAM_CASES = ((CHUNK, [1000] * 100), (512, [512 * 700 + 17, 5]), (CHUNK, [1, 7, 65536, 65537]),
              (CHUNK, [64, 0, 64, 0]))


def check_amp_c(module):
    for dtype in ALL:
        for chunk, sizes in ADAM_CASES:
            shape = f"{SHORT[dtype]}, {len(sizes)} tensors, {sum(sizes)} elements"
            for mode, decay in ((1, 0.0), (1, 0.1), (0, 0.1)):
                lists = adam_lists(dtype, sizes)
                before = [[f64(x) for x in group] for group in lists]
                module.multi_tensor_adam(chunk, flag(), [*map(list, lists)], 1e-2, 0.9, 0.999,
                                         1e-8, 3, mode, 1, decay)
                check_adam_lists(f"multi_tensor_adam mode {mode} decay {decay}, {shape}", lists,
                                 before, 3, decay, mode == 1)
        check_capturable(module, dtype)
        check_no_op(module, dtype)
        check_scale_and_norm(module, dtype)


def check_capturable(module, dtype):
    lr, scale = torch.tensor(1e-2, device=DEVICE), torch.tensor([0.5], device=DEVICE)
    step = torch.tensor([3], dtype=torch.int32, device=DEVICE)
    lists = adam_lists(dtype, [1000] * 40)
    before = [[f64(x) for x in group] for group in lists]
    module.multi_tensor_adam_capturable(CHUNK, flag(), [*map(list, lists)], lr, 0.9, 0.999, 1e-8,
                                        step, 1, 1, 0.1, scale)
    check_adam_lists(f"multi_tensor_adam_capturable {SHORT[dtype]}", lists, before, 3, 0.1, True,
                     0.5)
    lists = adam_lists(dtype, [1000] * 40)
    master = [x.float() + random(*x.shape, scale=1e-5) for x in lists[1]]
    before = [[f64(x) for x in group] for group in (lists[0], master, lists[2], lists[3])]
    module.multi_tensor_adam_capturable_master(
        CHUNK, flag(), [*map(list, lists), master], lr, 0.9, 0.999, 1e-8, step, 1, 1, 0.1, scale)
    call = f"multi_tensor_adam_capturable_master {SHORT[dtype]}"
    check_adam_lists(call, lists, before, 3, 0.1, True, 0.5)
    check_adam_lists(f"{call}, master", (None, master, lists[2], lists[3]), before, 3, 0.1, True,
                     0.5)


def check_no_op(module, dtype):
    lists = adam_lists(dtype, [1000])
    before = [group[0].clone() for group in lists]
    module.multi_tensor_adam(CHUNK, flag() + 1, [*map(list, lists)], 1e-2, 0.9, 0.999, 1e-8, 1, 1,
                             1, 0.0)
    check_true("multi_tensor_adam with the flag set changes nothing",
               all(torch.equal(group[0], old) for group, old in zip(lists, before)))


def check_scale_and_norm(module, dtype):
    x = [random(n, dtype=dtype) for n in (1000, 65537, 3)]
    for out_dtype in ALL:
        out, raised = [torch.empty_like(t, dtype=out_dtype) for t in x], flag()
        module.multi_tensor_scale(CHUNK, raised, [x, out], 0.3)
        check(f"multi_tensor_scale {SHORT[dtype]} -> {SHORT[out_dtype]}", torch.cat(out),
              torch.cat([f64(t) * 0.3 for t in x]))
        check_true("multi_tensor_scale leaves the flag", raised.item() == 0)
    bad, raised = [x[2].clone()], flag()
    bad[0][1] = math.inf
    module.multi_tensor_scale(CHUNK, raised, [bad, [torch.empty_like(bad[0])]], 0.3)
    check_true("multi_tensor_scale reports infinity", raised.item() != 0)
    x.insert(1, x[0][:0].clone())
    x += [random(300, dtype=dtype) for _ in range(150)]
    for each in (False, True, None):
        norm, norms = module.multi_tensor_l2norm(CHUNK, flag(), [x], each)
        check(f"multi_tensor_l2norm {SHORT[dtype]}", norm,
              torch.cat([f64(t) for t in x]).norm().reshape(1))
        if each:
            check(f"multi_tensor_l2norm {SHORT[dtype]}, each", norms,
                  torch.stack([f64(t).norm() for t in x]))


def norm_types():
    """(input, weight, mixed): what the norms accept."""
    return [(t, t, False) for t in ALL] + [(t, t, True) for t in ALL] + [
        (torch.float32, t, True) for t in HALF]


def check_norms(module):
    for rows, shape in ((37, (768,)), (5, (3, 1025)), (2, (12288,)), (1, (1,))):
        for x_type, w_type, mixed in norm_types():
            for rms in (False, True):
                for memory_efficient in (False, True):
                    check_norm(module, rows, shape, x_type, w_type, mixed, rms, memory_efficient)
        for dtype in ALL:
            check_plain_norm(module, rows, shape, dtype)
    narrow = random(4, 64, dtype=torch.bfloat16)
    ones = torch.ones(64, device=DEVICE)
    try:
        module.forward_affine_mixed_dtypes(narrow, (64,), ones, ones, 1e-5)
        check_true("an FP32 weight on a BF16 input is refused", False)
    except RuntimeError as error:
        check_true("an FP32 weight on a BF16 input is refused", "BFloat16" in str(error))


def check_norm(module, rows, shape, x_type, w_type, mixed, rms, memory_efficient):
    eps, dims = 1e-5, tuple(range(-len(shape), 0))
    x = random(rows, *shape, dtype=x_type, shift=0.5)
    # Away from zero, where an input cannot be won back from the output.
    weight = random(*shape, scale=0.1, shift=1.0).to(w_type)
    bias = random(*shape, scale=0.1).to(w_type)
    dy = random(rows, *shape, dtype=w_type)
    x64, w64, b64 = f64(x, True), f64(weight, True), f64(bias, True)
    suffix = "_affine_mixed_dtypes" if mixed else "_affine"
    label = f"{SHORT[x_type]}/{SHORT[w_type]} {rows}x{shape}"
    if rms:
        y, inverse = getattr(module, f"rms_forward{suffix}")(x, shape, weight, eps)
        want = rms_reference(x64, dims, w64, eps)
        statistics = (inverse,)
        affine, affine64, name = (weight,), (w64,), "rms_backward_affine"
    else:
        y, mean, inverse = getattr(module, f"forward{suffix}")(x, shape, weight, bias, eps)
        want = F.layer_norm(x64, shape, w64, b64, eps)
        statistics = (None if memory_efficient else mean, inverse)
        affine, affine64, name = (weight, bias), (w64, b64), "backward_affine"
        check(f"layer norm mean {label}", mean, x64.mean(dim=dims))
    check(f"{'rms ' if rms else ''}forward{suffix} {label}", y, want)
    saved = y if memory_efficient else x
    want.backward(f64(dy))
    gradients = getattr(module, name)(dy, *statistics, saved, shape, *affine, eps,
                                      memory_efficient)
    # From a rounded output the normalized value has that rounding, divided by nothing smaller
    # than 0.6, in each summand: dx is compared in the type that the output has.
    coarse = w_type if memory_efficient else None
    for part, got, reference in zip(("dx", "dweight", "dbias"), gradients, (x64, *affine64)):
        how = "from output" if memory_efficient else "from input"
        if shape == (1,) and part != "dbias":
            continue  # zero but for rounding: nothing to measure against
        check(f"{name} {part} {how} {label}", got, reference.grad, coarse)


def check_plain_norm(module, rows, shape, dtype):
    eps, dims = 1e-5, tuple(range(-len(shape), 0))
    x, dy = random(rows, *shape, dtype=dtype), random(rows, *shape, dtype=dtype)
    label = f"{SHORT[dtype]} {rows}x{shape}"
    x64 = f64(x, True)
    y, mean, inverse = module.forward(x, shape, eps)
    want = F.layer_norm(x64, shape, eps=eps)
    if shape != (1,):
        check(f"forward {label}", y, want)
        want.backward(f64(dy))
        check(f"backward {label}", module.backward(dy, mean, inverse, x, shape, eps, False),
              x64.grad)
    x64 = f64(x, True)
    y, inverse = module.rms_forward(x, shape, eps)
    want = rms_reference(x64, dims, None, eps)
    check(f"rms_forward {label}", y, want)
    if shape != (1,):
        want.backward(f64(dy))
        check(f"rms_backward {label}", module.rms_backward(dy, inverse, x, shape, eps, False),
              x64.grad)


def check_old_adam(module):
    for dtype in ALL:
        for size in (1000, 70001):
            p, m, v = random(size), random(size, scale=0.1), random(size, scale=0.1).abs()
            g = random(size, dtype=dtype)
            for copy in (torch.empty(0, dtype=dtype, device=DEVICE), torch.empty_like(g)):
                # mode 1 is eps outside the root; the gradient is divided by its scale.
                want = adam_reference(f64(g) / 4, f64(p), f64(m), f64(v), 2, 0.1)
                module.adam(p, copy, m, v, g, 1e-2, 0.9, 0.999, 1e-8, 4.0, 2, 1, 1, 0.1)
                for name, got, reference in zip(("p", "m", "v"), (p, m, v), want):
                    check(f"fused_adam_cuda.adam {SHORT[dtype]} {size}: {name}", got, reference)
                if copy.numel():
                    check(f"fused_adam_cuda.adam {SHORT[dtype]} {size}: copy", copy, want[0])
        g, p, m, v = adam_lists(torch.float32, [1000] * 50)
        g = [x.to(dtype) for x in g]
        before = [[f64(x) for x in group] for group in (g, p, m, v)]
        module.adam_mt(CHUNK, flag(), [p, m, v, g], 1e-2, 0.9, 0.999, 1e-8, 4.0, 2, 1, 1, 0.1)
        check_adam_lists(f"fused_adam_cuda.adam_mt {SHORT[dtype]}", (g, p, m, v), before, 2, 0.1,
                         True, 0.25)


def check_softmax_backward(module, name, dtype, y, scale):
    """The reference goes back from the module's own rounded output, as its backward does."""
    dy = random(*y.shape, dtype=dtype)
    y64, dy64 = f64(y), f64(dy)
    want = scale * y64 * (dy64 - (dy64 * y64).sum(-1, keepdim=True))
    check(f"{name}.backward {SHORT[dtype]} {tuple(y.shape)}", module.backward(dy, y, scale), want)


def check_scaled_softmax(module):
    for dtype in HALF:
        for shape in ((2, 4, 32, 48), (1, 3, 5, 2049)):
            x = random(*shape, dtype=dtype, scale=3.0)
            y = module.forward(x, 0.7)
            check(f"scaled_softmax_cuda.forward {SHORT[dtype]} {shape}", y,
                  softmax_reference(f64(x), 0.7, torch.zeros(shape, dtype=torch.bool)))
            check_softmax_backward(module, "scaled_softmax_cuda", dtype, y, 0.7)


def check_masked_softmax(module):
    name = module.__name__
    for dtype in HALF:
        for batches in (1, 3):
            x = random(3, 4, 20, 100, dtype=dtype, scale=3.0)
            mask = random(batches, 1, 20, 100) > 0.3
            mask[:, :, 7] = True  # a row of nothing but masked elements
            mask = mask.to(torch.uint8)
            y = module.forward(x, mask, 0.7)
            check(f"{name}.forward {SHORT[dtype]}, {batches} masks", y,
                  softmax_reference(f64(x), 0.7, mask.cpu().bool()))
            check_softmax_backward(module, name, dtype, y, 0.7)


def check_causal_softmax(module):
    for dtype in HALF:
        for size in (4, 100, 1040):
            x = random(6, size, size, dtype=dtype, scale=3.0)
            y = module.forward(x, 0.7)
            later = torch.ones(size, size, dtype=torch.bool).triu(1)
            check(f"scaled_upper_triang_masked_softmax_cuda.forward {SHORT[dtype]} {size}", y,
                  softmax_reference(f64(x), 0.7, later))
            check_softmax_backward(module, module.__name__, dtype, y, 0.7)


def check_rope(module):
    for dtype in ALL:
        for turned in (64, 32):
            for transposed in (False, True):
                x, dy = random(9, 2, 3, 64, dtype=dtype), random(9, 2, 3, 64, dtype=dtype)
                angles = random(9, 1, 1, turned, scale=2.0)
                x64, a64 = f64(x, True), f64(angles)
                head, tail = x64[..., :turned], x64[..., turned:]
                first, second = head.chunk(2, -1)
                rotated = torch.cat((-second, first), -1)
                want = torch.cat((head * a64.cos() + rotated * a64.sin(), tail), -1)
                label = f"{SHORT[dtype]} {turned} of 64, transposed {transposed}"
                y = module.forward(x, angles, transposed)
                check(f"fused_rotary_positional_embedding.forward {label}", y, want)
                check_true("its memory lies as asked",
                           (y.transpose(0, 1) if transposed else y).is_contiguous())
                want.backward(f64(dy))
                check(f"fused_rotary_positional_embedding.backward {label}",
                      module.backward(dy, angles, transposed), x64.grad)


def check_dense(module):
    for dtype in ALL:
        x, weight = random(33, 48, dtype=dtype), random(72, 48, dtype=dtype)
        bias, dy = random(72, dtype=dtype), random(33, 72, dtype=dtype)
        x64, w64, b64 = f64(x, True), f64(weight, True), f64(bias, True)
        want = x64 @ w64.t() + b64
        check(f"fused_dense_cuda.linear_bias_forward {SHORT[dtype]}",
              module.linear_bias_forward(x, weight, bias), want)
        want.backward(f64(dy))
        for name, got, reference in zip(("dx", "dweight", "dbias"),
                                        module.linear_bias_backward(x, weight, dy),
                                        (x64, w64, b64)):
            check(f"fused_dense_cuda.linear_bias_backward {name} {SHORT[dtype]}", got,
                  reference.grad)


def check_wgrad(module):
    for dtype in ALL:
        x, dy = random(33, 48, dtype=dtype), random(33, 72, dtype=dtype)
        gradient = random(72, 48)
        want = f64(gradient) + f64(dy).t() @ f64(x)
        module.wgrad_gemm_accum_fp32(x, dy, gradient)
        check(f"wgrad_gemm_accum_fp32 {SHORT[dtype]}", gradient, want)
    for dtype in HALF:
        x, dy = random(33, 48, dtype=dtype), random(33, 72, dtype=dtype)
        gradient = random(72, 48, dtype=dtype)
        want = f64(gradient) + f64(dy).t() @ f64(x)
        module.wgrad_gemm_accum_fp16(x, dy, gradient)
        check(f"wgrad_gemm_accum_fp16 {SHORT[dtype]}", gradient, want)


def check_mlp(module):
    activations = (lambda y: y, torch.relu, torch.sigmoid)
    for dtype in ALL:
        for bias in (0, 1):
            for number, activation in enumerate(activations):
                x, sizes = random(17, 24, dtype=dtype), ((40, 24), (16, 40))
                # Sized so that 16-bit layers stay in range.
                weights = [random(*size, dtype=dtype, scale=0.2) for size in sizes]
                biases = [random(size[0], dtype=dtype) for size in sizes] if bias else []
                inputs = [x, *weights, *biases]
                label = f"{SHORT[dtype]} bias {bias} activation {number}"
                outputs = module.forward(bias, number, inputs)
                want = f64(x)
                for i, weight in enumerate(weights):
                    want = want @ f64(weight).t() + (f64(biases[i]) if bias else 0)
                    want = activation(want)
                check(f"mlp_cuda.forward {label}", outputs[0], want)
                if dtype == torch.float32:
                    check_mlp_backward(module, bias, number, activation, inputs, outputs, label)


def check_mlp_backward(module, bias, number, activation, inputs, outputs, label):
    """In FP32 alone: in 16 bits a ReLU near zero may open in one and not in the other."""
    dy = random(*outputs[0].shape)
    inputs64 = [f64(x, True) for x in inputs]
    want = inputs64[0]
    for i in (0, 1):
        want = activation(want @ inputs64[1 + i].t() + (inputs64[3 + i] if bias else 0))
    want.backward(f64(dy))
    for i, got in enumerate(module.backward(bias, number, dy, outputs, inputs)):
        check(f"mlp_cuda.backward gradient {i} {label}", got, inputs64[i].grad)


def check_welford(module):
    for dtype in ALL:
        for shape in ((8, 5, 7, 9), (33, 64), (2, 3, 4000)):
            x = random(*shape, dtype=dtype, shift=3.0)
            mean, variance = module.welford_mean_var(x)
            dims = tuple(i for i in range(len(shape)) if i != 1)
            label = f"{SHORT[dtype]} {shape}"
            check(f"syncbn.welford_mean_var mean {label}", mean, f64(x).mean(dims))
            check(f"syncbn.welford_mean_var variance {label}", variance,
                  f64(x).var(dims, correction=0))


# --- the Python side ------------------------------------------------------------------------------


def check_classes():
    """The classes forward and backward, and the optimizers against torch's in float64."""
    from apex import normalization

    for name in normalization.__all__:
        for dtype in ALL:
            layer = getattr(normalization, name)(96).to(DEVICE).to(dtype)
            x = random(6, 5, 96, dtype=dtype).requires_grad_()
            dy = random(6, 5, 96, dtype=dtype)
            x64, w64 = f64(x, True), f64(layer.weight, True)
            y = layer(x)
            y.backward(dy)
            want = (rms_reference(x64, (-1,), w64, layer.eps) if "RMS" in name else
                    F.layer_norm(x64, (96,), w64, f64(layer.bias), layer.eps))
            want.backward(f64(dy))
            check(f"{name} forward {SHORT[dtype]}", y, want)
            check(f"{name} dx {SHORT[dtype]}", x.grad, x64.grad)
            check(f"{name} dweight {SHORT[dtype]}", layer.weight.grad, w64.grad)
    layer = normalization.FusedLayerNorm(96).to(DEVICE)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        check_true("FusedLayerNorm under BF16 autocast gives BF16",
                   layer(random(4, 96)).dtype == torch.bfloat16)
    check_optimizers()
    check_layers()
    check_clip()
    check_softmax_class()


def check_optimizers():
    from apex.contrib.optimizers import FusedAdam as OldAdam
    from apex.optimizers import FusedAdam

    kinds = (("FusedAdam", lambda p: FusedAdam(p, lr=1e-2, weight_decay=0.1)),
             ("FusedAdam capturable", lambda p: FusedAdam(p, lr=1e-2, weight_decay=0.1,
                                                          capturable=True)),
             ("contrib FusedAdam", lambda p: OldAdam(p, lr=1e-2, weight_decay=0.1)))
    for name, make in kinds:
        params = [random(50, 20).requires_grad_() for _ in range(40)]
        copies = [f64(p, True) for p in params]
        optimizer = make(params)
        reference = torch.optim.AdamW(copies, lr=1e-2, weight_decay=0.1)
        for p, copy in zip(params, copies):
            p.grad = random(50, 20)
            copy.grad = f64(p.grad)
        optimizer.step()
        reference.step()
        check(f"{name}, one step", torch.stack(list(params)), torch.stack(copies))
    params = [random(50, 20, dtype=torch.float16).requires_grad_() for _ in range(40)]
    copies = [f64(p, True) for p in params]
    optimizer = FusedAdam(params, lr=1e-2, capturable=True, master_weights=True, weight_decay=0.1)
    reference = torch.optim.AdamW(copies, lr=1e-2, weight_decay=0.1)
    for p, copy in zip(params, copies):
        p.grad = random(50, 20, dtype=torch.float16)
        copy.grad = f64(p.grad)
    optimizer.step()
    reference.step()
    masters = torch.stack([optimizer.state[p]["master_param"] for p in params])
    check("FusedAdam with master weights", torch.stack(list(params)), torch.stack(copies))
    check("its master weights", masters, torch.stack(copies))


def check_layers():
    from apex.fused_dense import FusedDense
    from apex.mlp import MLP

    dense, mlp = FusedDense(48, 72).to(DEVICE), MLP([48, 64, 16]).to(DEVICE)
    x = random(4, 9, 48).requires_grad_()
    x64 = f64(x, True)
    dense(x).sum().backward()
    F.linear(x64, f64(dense.weight), f64(dense.bias)).sum().backward()
    check("FusedDense dx", x.grad, x64.grad)
    x = random(9, 48).requires_grad_()
    x64 = f64(x, True)
    mlp(x).sum().backward()
    y = x64
    for weight, bias in zip(mlp.weights, mlp.biases):
        y = torch.relu(F.linear(y, f64(weight), f64(bias)))
    y.sum().backward()
    check("MLP dx", x.grad, x64.grad)


def check_clip():
    from apex.contrib.clip_grad import clip_grad_norm_

    params = [random(50, 20, dtype=dtype).requires_grad_() for dtype in ALL for _ in range(20)]
    for p in params:
        p.grad = random(50, 20, dtype=p.dtype)
    before = torch.cat([f64(p.grad).reshape(-1) for p in params])
    length = before.norm()
    # The norm of BF16 gradients is rounded to BF16 before it joins the others.
    check("contrib.clip_grad norm", clip_grad_norm_(params, 30.0), length, torch.bfloat16)
    grads = torch.cat([p.grad.float().reshape(-1) for p in params])
    check("contrib.clip_grad gradients", grads, before * 30.0 / length, torch.bfloat16)


def check_softmax_class():
    from apex.transformer.enums import AttnMaskType
    from apex.transformer.functional import FusedScaleMaskSoftmax

    later = torch.ones(64, 64, dtype=torch.bool).triu(1)
    for kind, mask in ((AttnMaskType.causal, None), (AttnMaskType.padding, None),
                       (AttnMaskType.padding, random(2, 1, 64, 64) > 0.5)):
        for size in (64, 16):
            if kind == AttnMaskType.causal and size == 16:
                continue  # PyTorch's code there takes a mask, which is the caller's to make
            layer = FusedScaleMaskSoftmax(True, False, kind, True,
                                          lambda x, m: x.masked_fill(m, -10000.0), True, 0.7)
            x = random(2, 4, 64, size, dtype=torch.float16, scale=3.0)
            cut = None if mask is None else mask[..., :size]
            masked = later if kind == AttnMaskType.causal else (
                torch.zeros(1, dtype=torch.bool) if cut is None else cut.cpu())
            check(f"FusedScaleMaskSoftmax {kind.name}, {size} keys", layer(x, cut),
                  softmax_reference(f64(x), 0.7, masked))


CHECKS = {
    "apex_C": check_apex_c,
    "amp_C": check_amp_c,
    "syncbn": check_welford,
    "fused_layer_norm_cuda": check_norms,
    "mlp_cuda": check_mlp,
    "fused_dense_cuda": check_dense,
    "scaled_upper_triang_masked_softmax_cuda": check_causal_softmax,
    "scaled_masked_softmax_cuda": check_masked_softmax,
    "scaled_softmax_cuda": check_scaled_softmax,
    "generic_scaled_masked_softmax_cuda": check_masked_softmax,
    "fused_rotary_positional_embedding": check_rope,
    "fused_weight_gradient_mlp_cuda": check_wgrad,
    "fused_adam_cuda": check_old_adam,
}


def guarded(name, function, *arguments):
    """An exception is one failed check, and the rest goes on."""
    try:
        function(*arguments)
    except Exception as error:
        results.append(False)
        print(f"FAIL            {name}: {type(error).__name__}: {error}")


def main():
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name(DEVICE)}, {DEVICE}")
    for name, function in CHECKS.items():
        guarded(name, lambda name=name, f=function: f(compiled(name)))
    guarded("apex", check_classes)
    failed = results.count(False)
    print(f"{len(results) - failed} passed, {failed} failed")
    return 1 if failed else 0


GENERATOR = torch.Generator().manual_seed(1)

if __name__ == "__main__":
    torch.backends.cuda.matmul.allow_tf32 = False
    sys.exit(main())
