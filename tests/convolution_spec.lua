-- Convolutions, pools, pads and resized images: sizes that are cut into tiles, bad input, layers. Numbers of
-- small ones come from PyTorch (registry_spec, layers_spec).
local optlua = require "optlua"
require("optlua.core").hidden.poison_memory(true)
local nn = optlua.nn
local tensor, zeros, ones = optlua.tensor, optlua.zeros, optlua.ones
local nan = 0 / 0

local fails = require("fails").containing

local function shape(x) return { table.unpack(x.shape) } end

local function same(x, y)
  assert.same(shape(x), shape(y))
  assert.is_true(x:eq(y):all():item() ~= 0)
end

--- Small whole numbers, whose products and sums are exact in any order.
local function whole(...) return optlua.randint(-3, 4, { ... }):to "float32" end

--- A convolution tap by tap, of images that are padded already.
local function plain(x, w, stride, dilation, groups)
  local n, out = x.shape[1], w.shape[1]
  local h = (x.shape[3] - (w.shape[3] - 1) * dilation - 1) // stride + 1
  local v = (x.shape[4] - (w.shape[4] - 1) * dilation - 1) // stride + 1
  local rows, columns = optlua.arange(0, h) * stride, optlua.arange(0, v) * stride
  local parts = {}
  for g = 1, groups do
    local own = x:narrow(2, 1 + (g - 1) * w.shape[2], w.shape[2])
    local weights, sum = w:narrow(1, 1 + (g - 1) * (out // groups), out // groups), nil
    for ky = 0, w.shape[3] - 1 do
      for kx = 0, w.shape[4] - 1 do
        local taken = own:index_select(3, (rows + ky * dilation):to "int64"):index_select(4,
          (columns + kx * dilation):to "int64")
        local term = weights:select(3, ky + 1):select(3, kx + 1):matmul(taken:reshape(n, w.shape[2], h * v))
        sum = sum and sum + term or term
      end
    end
    parts[g] = sum
  end
  return optlua.cat(parts, 2):reshape(n, out, h, v)
end

--- A gradient of some shape, of small whole numbers.
local function seed(like) return (optlua.arange(0, like:numel()) % 5 - 2):reshape(like.shape):to(like.dtype) end

--- Result and gradients of f on fresh leaves.
local function run(f, ...)
  local leaves = {}
  for k, x in ipairs { ... } do
    leaves[k] = x:clone()
    leaves[k].requires_grad = true
  end
  local y = f(table.unpack(leaves))
  y:backward(seed(y))
  local found = { y:detach() }
  for k, leaf in ipairs(leaves) do found[k + 1] = leaf.grad end
  return found
end

describe("a convolution", function()
  local cases = {
    ["of pieces of images"] = { { 2, 16, 48, 49 }, { 16, 16, 3, 3 }, padding = 1 },
    ["of pieces of one image"] = { { 1, 3, 90, 91 }, { 70, 3, 5, 4 }, stride = 2 },
    ["of several images a tile"] = { { 10, 8, 6, 7 }, { 5, 8, 3, 3 }, padding = 1 },
    ["of several images a tile, in groups"] = { { 11, 8, 6, 6 }, { 6, 4, 3, 3 }, groups = 2, padding = 2, dilation = 2 },
    ["of many channels"] = { { 1, 66, 8, 8 }, { 9, 66, 3, 3 } },
    ["of many weights"] = { { 5, 128, 4, 4 }, { 260, 128, 3, 3 }, padding = 1 },
    ["of single elements"] = { { 2, 64, 50, 51 }, { 70, 64, 1, 1 } },
    ["of single elements of small images"] = { { 7, 6, 3, 3 }, { 4, 6, 1, 1 } },
    ["of single elements in groups"] = { { 3, 6, 9, 9 }, { 4, 3, 1, 1 }, groups = 2 },
    ["with steps, of single elements"] = { { 2, 6, 20, 21 }, { 4, 6, 1, 1 }, stride = 2 },
    ["by channel"] = { { 3, 6, 33, 35 }, { 6, 1, 3, 3 }, groups = 6, padding = 1 },
    ["by channel, with steps"] = { { 2, 5, 33, 34 }, { 10, 1, 5, 4 }, groups = 5, stride = 3, padding = 2 },
    ["by channel, with steps and dilation"] = { { 2, 3, 20, 31 }, { 6, 1, 3, 3 }, groups = 3, stride = 4, dilation = 3 },
    ["by channel, with steps beyond the kernel"] = { { 2, 3, 20, 31 }, { 3, 1, 2, 3 }, groups = 3, stride = 7 },
    ["by channel, of one window"] = { { 2, 3, 5, 6 }, { 3, 1, 5, 6 }, groups = 3, stride = 1000000 },
  }
  for name, case in pairs(cases) do
    it(name .. " is that of its taps, and so are its gradients", function()
      local stride, padding, dilation, groups = case.stride or 1, case.padding or 0, case.dilation or 1, case.groups or 1
      local x, w = whole(table.unpack(case[1])), whole(table.unpack(case[2]))
      local got = run(function(a, b) return optlua.conv2d(a, b, nil, stride, padding, dilation, groups) end, x, w)
      local wanted = run(function(a, b)
        return plain(optlua.pad(a, { padding, padding, padding, padding }), b, stride, dilation, groups)
      end, x, w)
      for k = 1, 3 do same(got[k], wanted[k]) end
    end)
  end

  it("adds its bias, whose gradient is the sum of the result's", function()
    for _, groups in ipairs { 1, 2, 4 } do
      local x, w, b = whole(9, 4, 5, 6), whole(8, 4 // groups, 3, 3), whole(8)
      local got = run(function(a, c, d) return optlua.conv2d(a, c, d, { padding = 1, groups = groups }) end, x, w, b)
      same(got[1], optlua.conv2d(x, w, { padding = 1, groups = groups }) + b:reshape(8, 1, 1))
      same(got[4], seed(got[1]):sum { 1, 3, 4 })
    end
  end)

  it("is transposed by conv_transpose2d: each is the other's gradient", function()
    for _, groups in ipairs { 1, 3 } do
      local x, w, g = whole(4, 3, 9, 11), whole(6, 3 // groups, 3, 2), whole(4, 6, 5, 6)
      local opts = { stride = 2, padding = 1, groups = groups }
      x.requires_grad = true
      optlua.conv2d(x, w, opts):backward(g)
      opts.output_padding = { 0, 1 }
      same(x.grad, optlua.conv_transpose2d(g, w, opts))
    end
  end)

  it("gives the same bits on each run", function()
    local x, w = optlua.randn(9, 16, 30, 30), optlua.randn(16, 16, 3, 3)
    local function again() return run(function(a, b) return optlua.conv2d(a, b, { padding = 1 }) end, x, w) end
    local first, second = again(), again()
    for k = 1, 3 do same(first[k], second[k]) end
  end)

  it("of one image without its batch is that of a batch of one", function()
    local x, w, b = whole(3, 6, 7), whole(4, 3, 3, 3), whole(4)
    same(optlua.conv2d(x, w, b), optlua.conv2d(x:unsqueeze(1), w, b):squeeze(1))
    same(optlua.max_pool2d(x, 2), optlua.max_pool2d(x:unsqueeze(1), 2):squeeze(1))
  end)

  it("of no image is empty, and its weights have a gradient of zeros", function()
    for _, groups in ipairs { 1, 3 } do
      local got = run(function(a, b) return optlua.conv2d(a, b, { groups = groups }) end, zeros(0, 3, 8, 8),
        ones(3, 3 // groups, 3, 3))
      assert.same({ 0, 3, 6, 6 }, shape(got[1]))
      assert.equal(0, got[3]:abs():sum():item())
    end
  end)

  it("by channel, of large numbers, is that of as many groups", function()
    local function each(f, x, w, opts)
      local one, parts = {}, {}
      for key, value in pairs(opts) do one[key] = value end
      opts.groups = x.shape[2]
      for c = 1, x.shape[2] do
        parts[c] = f(x:narrow(2, c, 1), w:narrow(1, c, 1), one)
      end
      same(f(x, w, opts), optlua.cat(parts, 2))
    end
    local wide = { dilation = { 2 ^ 29 - 1 | 0, 2 ^ 31 - 1 | 0 }, padding = { 2 ^ 28 - 2 | 0, 2 ^ 30 - 2 | 0 } }
    each(optlua.conv2d, whole(1, 2, 4, 4), whole(2, 1, 2, 2), wide)
    each(optlua.conv2d, whole(1, 2, 3, 4), whole(2, 1, 2, 2), { stride = 2 ^ 30 | 0, padding = 2 ^ 30 | 0 })
    each(optlua.conv2d, whole(1, 2, 65, 65), whole(2, 1, 64, 64), {})
    each(optlua.conv2d, whole(1, 2, 100, 100), whole(2, 1, 100, 100), { stride = 100 })
    each(optlua.conv_transpose2d, whole(1, 2, 2, 2), whole(2, 1, 2, 2),
      { dilation = 2 ^ 30 | 0, padding = 2 ^ 29 | 0 })
    each(optlua.conv1d, whole(1, 2, 5), whole(2, 1, 2), { dilation = 2 ^ 31 - 1 | 0, padding = 2 ^ 30 | 0 })
  end)

  it("of lines that cannot be counted is refused", function()
    fails("more than 2^63 lines", optlua.conv_transpose1d, zeros(0, 1, 2 ^ 40 | 0), zeros(1, 1, 3),
      { stride = 2 ^ 31 - 1 | 0 })
    fails("has too many taps", optlua.conv1d, zeros(0, 1, 2 ^ 40 | 0), zeros(0, 1, 2 ^ 33 | 0))
  end)

  it("of no channels is empty, or its bias, and gives gradients of zeros", function()
    for _, groups in ipairs { 1, 3 } do
      local got = run(function(a, b) return optlua.conv2d(a, b, { groups = groups }) end, ones(2, 3, 5, 5),
        zeros(0, 3 // groups, 3, 3))
      assert.same({ 2, 0, 3, 3 }, shape(got[1]))
      same(got[2], zeros(2, 3, 5, 5))
      got = run(function(a, b) return optlua.conv_transpose2d(a, b, { groups = groups }) end, ones(2, 3, 5, 5),
        zeros(3, 0, 3, 3))
      assert.same({ 2, 0, 7, 7 }, shape(got[1]))
      same(got[2], zeros(2, 3, 5, 5))
    end
    local got = run(function(a, b, c) return optlua.conv2d(a, b, c) end, ones(2, 0, 5, 5), zeros(3, 0, 2, 2), whole(3))
    same(got[1], optlua.zeros(2, 3, 4, 4) + got[1][1]:narrow(2, 1, 1):narrow(3, 1, 1))
    got = run(function(a, b) return optlua.conv2d(a, b, { padding = "same", groups = 2 }) end, ones(2, 2, 0, 5),
      ones(2, 1, 3, 3))
    assert.same({ 2, 2, 0, 5 }, shape(got[1]))
    same(got[3], zeros(2, 1, 3, 3))
  end)

  it("of padded sizes that cannot be counted is refused", function()
    local most = 2 ^ 31 - 1 | 0
    fails("is too large: its size in bytes overflows", optlua.pad, zeros(1, 1, 1), { 0, most, 0, most, 0, most })
    fails("is too large: its size in bytes overflows", optlua.pad, zeros(0, 1, 1, 1), { 0, most, 0, most, 0, most })
  end)

  it("knows padding by words", function()
    assert.same({ 1, 1, 5, 6 }, shape(optlua.conv2d(ones(1, 1, 5, 6), ones(1, 1, 2, 3), { padding = "same" })))
    assert.same({ 1, 1, 4, 4 }, shape(optlua.conv2d(ones(1, 1, 5, 6), ones(1, 1, 2, 3), { padding = "valid" })))
    fails('padding "same" wants a stride of 1', optlua.conv2d, ones(1, 1, 5, 6), ones(1, 1, 2, 3),
      { padding = "same", stride = 2 })
    fails("one of valid|same expected", optlua.conv2d, ones(1, 1, 5, 6), ones(1, 1, 2, 3), { padding = "some" })
  end)

  it("refuses what does not fit, naming both shapes", function()
    local x = ones(1, 3, 8, 8)
    local conv2d, transpose = optlua.conv2d, optlua.conv_transpose2d
    fails("conv2d: input (1, 3, 8, 8) has 3 channels, weight (4, 2, 3, 3) with groups = 1 expects 2", conv2d, x,
      ones(4, 2, 3, 3))
    fails("input (1, 3, 8, 8) has 3 channels, weight (4, 3, 3, 3) with groups = 2 expects 6", conv2d, x, ones(4, 3, 3, 3),
      { groups = 2 })
    fails("conv_transpose2d: input (1, 3, 8, 8) has 3 channels, weight (4, 2, 3, 3) with groups = 1 expects 4", transpose, x,
      ones(4, 2, 3, 3))
    fails("3 groups do not divide the 4 channels of weight (4, 1, 3, 3)", conv2d, x, ones(4, 1, 3, 3), { groups = 3 })
    fails("groups is 0, wants at least 1", conv2d, x, ones(4, 3, 3, 3), { groups = 0 })
    fails("the kernel (9, 3) is larger than the padded input (8, 8)", conv2d, x, ones(4, 3, 9, 3))
    fails("the dilated kernel (9, 9) is larger than the padded input (8, 8)", conv2d, x, ones(4, 3, 3, 3), { dilation = 4 })
    fails("padding is -1, wants at least 0", conv2d, x, ones(4, 3, 3, 3), { padding = -1 })
    fails("stride is 0, wants at least 1", conv2d, x, ones(4, 3, 3, 3), { stride = { 1, 0 } })
    fails("stride has 3 numbers, wants 1 or 2", conv2d, x, ones(4, 3, 3, 3), { stride = { 1, 1, 1 } })
    fails("padding is 4294967296, wants at most 2147483647", conv2d, x, ones(4, 3, 3, 3), { padding = 2 ^ 32 })
    fails("bias (3) does not fit 4 channels of the result", conv2d, x, ones(4, 3, 3, 3), ones(3))
    fails("bias (4, 1) has 2 dimensions, wants 1", conv2d, x, ones(4, 3, 3, 3), ones(4, 1))
    fails("weight (4, 3, 3) has 3 dimensions, wants 4", conv2d, x, ones(4, 3, 3))
    fails("weight is float64, input is float32", conv2d, x, ones({ 4, 3, 3, 3 }, { dtype = "float64" }))
    fails("input (3, 8) has 2 dimensions, wants (N, C, H, W) or (C, H, W)", conv2d, ones(3, 8), ones(4, 3, 3, 3))
    fails("wants float32 or float64, got int64", conv2d, x:to "int64", ones(4, 3, 3, 3))
    fails("weight (4, 3, 0, 3) has no taps", conv2d, x, ones(4, 3, 0, 3))
    fails("output_padding is 2, wants less than stride or dilation (2)", transpose, x, ones(3, 2, 3, 3),
      { stride = 2, output_padding = 2 })
    fails("the padding of 9 removes all of it", transpose, x, ones(3, 2, 3, 3), { padding = 9 })
    fails("conv1d: the kernel (5) is larger than the padded input (4)", optlua.conv1d, ones(1, 1, 4), ones(1, 1, 5))
  end)
end)

describe("a pool", function()
  it("of largest elements takes NaN for the largest", function()
    local x = tensor { { { 1, nan, 3 }, { 4, 5, 6 } } }
    local y, index = optlua.max_pool2d(x, { 2, 2 }, 1, { return_indices = true })
    assert.is_true(y:ne(y):all():item() ~= 0)
    assert.same({ 1, 1 }, index:flatten():totable())
  end)

  it("of largest elements never takes padding", function()
    local y, index = optlua.max_pool1d(tensor { { -3, -4, -math.huge } }, 3, 2, 1, { return_indices = true })
    assert.same({ -3, -4 }, y:flatten():totable())
    assert.same({ 0, 1 }, index:flatten():totable())
  end)

  it("keeps indices of its own for backward", function()
    local x = ones(1, 4, 4)
    x.requires_grad = true
    local y, index = optlua.max_pool2d(x, 2, { return_indices = true })
    index:fill_(1000000)
    y:sum():backward()
    assert.equal(4, x.grad:sum():item())
  end)

  it("of means can leave padding out, or divide by what it is told", function()
    local x = ones(1, 2, 2)
    assert.same({ 0.25 }, optlua.avg_pool2d(x, 2, 9, 1):flatten():totable())
    assert.same({ 1 }, optlua.avg_pool2d(x, 2, 9, 1, false, false):flatten():totable())
    assert.same({ 2 }, optlua.avg_pool2d(x, 2, { divisor_override = 2 }):flatten():totable())
    fails("divisor_override is 0", optlua.avg_pool2d, x, 2, { divisor_override = 0 })
  end)

  it("refuses what does not fit", function()
    local x = ones(1, 3, 8, 8)
    fails("max_pool2d: the kernel (9, 9) is larger than the padded input (8, 8)", optlua.max_pool2d, x, 9)
    fails("padding is 2, wants at most half of the kernel's size of 3", optlua.avg_pool2d, x, 3, 1, 2)
    fails("kernel_size is 0, wants at least 1", optlua.max_pool2d, x, 0)
    fails("input (1, 0, 8, 8) is empty; only its batch may be", optlua.max_pool2d, zeros(1, 0, 8, 8), 2)
    fails("output_size has 3 numbers, wants 1 or 2", optlua.adaptive_avg_pool2d, x, { 1, 2, 3 })
    fails("output_size is 0, wants at least 1", optlua.adaptive_max_pool2d, x, 0)
    fails("got uint8", optlua.max_pool2d, x:to "uint8", 2)
  end)
end)

describe("pad", function()
  it("takes pairs, the last dimension first", function()
    assert.same({ 4, 7 }, shape(optlua.pad(ones(1, 4), { 1, 2, 0, 3 })))
    assert.same({ 0, 0, 1, 0, 0 }, optlua.pad(ones(1), { 2, 2 }):totable())
    assert.same({ 2 }, optlua.pad(tensor { 1, 2, 3 }, { -1, -1 }):totable())
  end)

  it("keeps every dtype", function()
    for _, dtype in ipairs { "uint8", "int64", "bfloat16", "float32", "float64" } do
      local y = optlua.pad(ones({ 2 }, { dtype = dtype }), { 1, 1 }, { value = 7 })
      assert.equal(dtype, y.dtype)
      assert.same({ 7, 1, 1, 7 }, y:to("float64"):totable())
    end
  end)

  it("refuses what does not fit", function()
    local x = ones(2, 3)
    fails("pad: 3 numbers; wants two for each dimension", optlua.pad, x, { 1, 2, 3 })
    fails("6 numbers are too many for input (2, 3)", optlua.pad, x, { 1, 1, 1, 1, 1, 1 })
    fails('(3, 0) is too much for dimension 2 of size 3 with mode "reflect"', optlua.pad, x, { 3, 0 }, "reflect")
    fails('(0, 4) is too much for dimension 2 of size 3 with mode "circular"', optlua.pad, x, { 0, 4 }, "circular")
    fails("(-2, -2) cuts off more than dimension 2 of size 3", optlua.pad, x, { -2, -2 })
    fails("one of constant|reflect|replicate|circular expected", optlua.pad, x, { 1, 1 }, "mirror")
  end)
end)

describe("interpolate", function()
  it("takes one factor, or one for rows and one for columns", function()
    local x = ones(1, 1, 4, 4)
    assert.same({ 1, 1, 6, 6 }, shape(optlua.interpolate(x, { scale_factor = 1.5 })))
    assert.same({ 1, 1, 8, 4 }, shape(nn.functional.interpolate(x, { scale_factor = { 2, 1 } })))
    assert.same({ 1, 1, 8, 4 }, shape(nn.functional.interpolate(x, nil, { 2, 1 }, "bilinear", true)))
    fails("scale_factor: expected 1 or 2 numbers, got 3", nn.functional.interpolate, x, nil, { 1, 2, 3 })
  end)

  it("refuses what does not fit", function()
    local x = ones(1, 1, 4, 4)
    fails("wants either size or scale_factor", optlua.interpolate, x)
    fails("wants either size or scale_factor", optlua.interpolate, x, 2, 2)
    fails('mode "linear" wants (N, C, L)', optlua.interpolate, x, 2, { mode = "linear" })
    fails('mode "bilinear" wants (N, C, H, W)', optlua.interpolate, ones(1, 1, 4), 2, { mode = "bilinear" })
    fails("align_corners goes with modes linear and bilinear only", optlua.interpolate, x, 2, { align_corners = true })
    fails("scale_factor is 0.1", optlua.interpolate, x, { scale_factor = 0.1 })
    fails("scale_factor is nan", function() optlua.interpolate(x, { scale_factor = nan }) end)
    fails("input (4, 4), wants (N, C, L) or (N, C, H, W)", optlua.interpolate, ones(4, 4), 2)
  end)
end)

describe("layers of windows", function()
  it("print as PyTorch's", function()
    local cases = {
      [nn.Conv2d(1, 8, 3, { padding = 1, bias = false })] =
        "Conv2d(1, 8, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), bias=false)",
      [nn.Conv1d(4, 8, { 3 }, 2, "valid", 1, 2)] = "Conv1d(4, 8, kernel_size=(3,), stride=(2,), padding=valid, groups=2)",
      [nn.Conv2d(1, 1, 3, { padding = "same", padding_mode = "circular", dilation = 2 })] = "Conv2d(1, 1, kernel_size=(3, 3), "
        .. "stride=(1, 1), padding=same, dilation=(2, 2), padding_mode=circular)",
      [nn.ConvTranspose2d(3, 4, 3, 2, 1, 1)] =
        "ConvTranspose2d(3, 4, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), output_padding=(1, 1))",
      [nn.MaxPool2d({ 3, 2 })] = "MaxPool2d(kernel_size=(3, 2), stride=(3, 2), padding=0, dilation=1, ceil_mode=false)",
      [nn.AvgPool1d(2)] = "AvgPool1d(kernel_size=(2,), stride=(2,), padding=(0,))",
      [nn.AdaptiveAvgPool2d { 1, 2 }] = "AdaptiveAvgPool2d(output_size=(1, 2))",
      [nn.ConstantPad1d(2, 0.5)] = "ConstantPad1d(padding=(2, 2), value=0.5)",
      [nn.ZeroPad2d { 1, 2, 3, 4 }] = "ZeroPad2d((1, 2, 3, 4))",
      [nn.Upsample { scale_factor = 2, mode = "bilinear" }] = "Upsample(scale_factor=2, mode='bilinear')",
      [nn.Flatten()] = "Flatten(start_dim=2, end_dim=-1)",
      [nn.Unflatten(2, { 3, 2 })] = "Unflatten(dim=2, unflattened_size=(3, 2))",
    }
    for layer, text in pairs(cases) do assert.equal(text, tostring(layer)) end
  end)

  it("start uniform within the bound of what a result is made of", function()
    local bound = 1 / math.sqrt(4 * 9)
    local layer = nn.Conv2d(8, 64, 3, { groups = 2 })
    assert.same({ 64, 4, 3, 3 }, shape(layer.weight))
    assert.is_true(layer.weight:abs():max():item() <= bound)
    assert.is_true(layer.weight:abs():max():item() > 0.98 * bound)
    assert.is_true(layer.bias:abs():max():item() <= bound)
    assert.equal("float64", nn.Conv1d(1, 1, 1, { dtype = "float64" }).weight.dtype)
    assert.is_nil(nn.ConvTranspose1d(1, 1, 1, { bias = false }).bias)
  end)

  it("refuse what cannot be, at the line that makes them", function()
    local function here(text, ...)
      local message = fails(text, ...)
      assert.matches("convolution_spec%.lua:%d+: nn%.", message)
    end
    here("nn.Conv2d: kernel_size: is required", function() nn.Conv2d(1, 2) end)
    here("nn.Conv2d: groups = 2 does not divide in_channels = 3", function() nn.Conv2d(3, 4, 3, { groups = 2 }) end)
    here("nn.Conv2d: kernel_size: expected 1 or 2 numbers, got 3", function() nn.Conv2d(3, 4, { 1, 2, 3 }) end)
    here('nn.Conv2d: padding: expected integers, "same" or "valid", got "x"', function() nn.Conv2d(3, 4, 3, 1, "x") end)
    here('nn.Conv1d: padding "same" wants a stride of 1', function() nn.Conv1d(3, 4, 3, 2, "same") end)
    here('unknown option "strid" (did you mean "stride"?)', function() nn.Conv2d(3, 4, 3, { strid = 2 }) end)
    here("stride: is given twice", function() nn.Conv2d(3, 4, 3, 1, { stride = 2 }) end)
    here("at most 10 arguments expected, got 11",
      function() nn.Conv2d(3, 4, 3, 1, 1, 1, 1, true, "zeros", "float64", 1) end)
    here("nn.MaxPool2d: stride[2]: expected an integer at least 1, got 0", function() nn.MaxPool2d(2, { 3, 0 }) end)
    here("nn.MaxPool1d: kernel_size: expected 1 number, got 2", function() nn.MaxPool1d { 2, 3 } end)
    here("nn.ReflectionPad2d: padding: expected 1 or 4 numbers, got 2", function() nn.ReflectionPad2d { 1, 2 } end)
    here("nn.Upsample: expected either size or scale_factor", function() nn.Upsample() end)
    fails("ConvTranspose2d: output_size: expected 13 to 14 in dimension 3, got 15",
      function() nn.ConvTranspose2d(1, 1, 3, 2, 1)(ones(1, 1, 7, 7), 15) end)
    fails("nn.ZeroPad2d: expected an input of 3 or 4 dimensions, got 2", function() nn.ZeroPad2d(1)(ones(3, 4)) end)
  end)
end)
