--- layers: the second half of the benchmarks: layers and functions at usual sizes, forward and with
-- backward, as ratios to their floors, which are products of matrices as fast as sgemm, or a copy of as many
-- bytes as must be read and written; and to the same work in PyTorch where there is a peer.
local optlua = require "optlua"
local floors = require "floors"
local peer = require "peer"
local timing = require "timing"
local nn = optlua.nn
local F = nn.functional

local LIMIT = 3 -- times the peer's that are too many

--- A case: its name, which the peer knows too; { flops or bytes of forward, with backward }; and a function
--- that makes the inputs, which get gradients, what to call with them, and the layer that is in it, if any.
local cases = {}

local function case(name, floor, make) table.insert(cases, { name = name, floor = floor, make = make }) end

--- So many multiplications; the gradients are two products more.
local function products(multiplications) return { kind = "products", 2 * multiplications, 6 * multiplications } end

--- Elements that forward reads and writes. Backward reads the gradients of what was written, and what was
--- read once more, and writes the gradients of that.
local function moves(read, written)
  return { kind = "bytes", 4 * (read + written), 4 * (3 * read + 2 * written) }
end

local function layer(name, floor, size, make)
  case(name, floor, function() return { optlua.randn(size) }, make() end)
end

layer("conv2d 3x3, 64 to 64, 32x32 x 16", products(16 * 64 * 64 * 9 * 32 * 32), { 16, 64, 32, 32 },
  function() return nn.Conv2d(64, 64, 3, { padding = 1 }) end)
layer("conv2d 1x1, 256 to 64, 32x32 x 16", products(16 * 256 * 64 * 32 * 32), { 16, 256, 32, 32 },
  function() return nn.Conv2d(256, 64, 1) end)
layer("conv2d 7x7 / 2, 3 to 64, 112x112 x 8", products(8 * 3 * 64 * 49 * 56 * 56), { 8, 3, 112, 112 },
  function() return nn.Conv2d(3, 64, 7, { stride = 2, padding = 3 }) end)

local MILLION = 1 << 20 -- elements of each of the following
local IMAGES, ROWS = { 16, 64, 32, 32 }, { 4096, 256 }

layer("conv2d 3x3, depthwise", moves(MILLION, MILLION), IMAGES,
  function() return nn.Conv2d(64, 64, 3, { padding = 1, groups = 64 }) end)
layer("max_pool2d 2x2", moves(MILLION, MILLION // 4), IMAGES, function() return nn.MaxPool2d(2) end)
layer("max_pool2d 3x3 / 2", moves(MILLION, MILLION // 4), IMAGES,
  function() return nn.MaxPool2d(3, { stride = 2, padding = 1 }) end)
layer("avg_pool2d 2x2", moves(MILLION, MILLION // 4), IMAGES, function() return nn.AvgPool2d(2) end)
layer("adaptive_avg_pool2d 1", moves(MILLION, 1024), IMAGES, function() return nn.AdaptiveAvgPool2d(1) end)
layer("batch_norm", moves(MILLION, MILLION), IMAGES, function() return nn.BatchNorm2d(64) end)
layer("group_norm, 8 groups", moves(MILLION, MILLION), IMAGES, function() return nn.GroupNorm(8, 64) end)
layer("layer_norm, 256", moves(MILLION, MILLION), ROWS, function() return nn.LayerNorm(256) end)
layer("softmax, 256", moves(MILLION, MILLION), ROWS,
  function() return function(x) return F.softmax(x, -1) end end)
for _, name in ipairs { "relu", "gelu", "silu", "tanh", "sigmoid", "exp" } do
  layer(name, moves(MILLION, MILLION), { MILLION }, function() return optlua[name] end)
end

local function cross_entropy(rows, classes)
  case(("cross_entropy, %d x %d"):format(rows, classes), moves(rows * classes, 0), function()
    local target = optlua.randint(0, classes, { rows })
    return { optlua.randn { rows, classes } }, function(x) return F.cross_entropy(x, target) end
  end)
end

cross_entropy(64, 1000)
cross_entropy(512, 32000)

--- The products with the keys and the values; backward makes the weights again, and four gradients.
local function attention(name, options)
  local product = 8 * 4 * 256 * 256 * 64
  case(name, { kind = "products", 2 * 2 * product, 2 * 7 * product }, function()
    local inputs = {}
    for k = 1, 3 do inputs[k] = optlua.randn { 8, 4, 256, 64 } end
    return inputs, function(q, k, v) return F.scaled_dot_product_attention(q, k, v, options) end
  end)
end

attention("attention, 8 x 4 x 256 x 64", {})
attention("attention, causal", { is_causal = true })
layer("linear, 1024 x 256 to 1024", products(1024 * 256 * 1024), { 1024, 256 },
  function() return nn.Linear(256, 1024) end)

--- Backward fills a gradient as large as the weight.
case("embedding, 32k x 256, 4096 ids", { kind = "bytes", 8 * MILLION, 12 * MILLION + 4 * 32000 * 256 }, function()
  local ids = optlua.randint(0, 32000, { 4096 })
  return { optlua.randn { 32000, 256 } }, function(weight) return F.embedding(ids, weight) end
end)

case("LSTM, 64 steps x 32, 128 to 128", products(64 * 32 * (128 + 128) * 4 * 128), function()
  local lstm = nn.LSTM(128, 128)
  return { optlua.randn { 64, 32, 128 } }, function(x) return (lstm(x)) end, lstm
end)

--- What is measured, as functions of a count: forward unrecorded, and forward with backward.
local function work(make)
  local inputs, fn, inside = make()
  inside = inside or nn.is_module(fn) and fn
  local leaves = inside and inside:parameters() or {}
  for _, x in ipairs(inputs) do
    x.requires_grad = true
    table.insert(leaves, x)
  end
  local seed = optlua.randn(fn(table.unpack(inputs)).shape)
  return {
    function(n)
      for _ = 1, n do optlua.no_grad(fn, table.unpack(inputs)) end
    end,
    function(n)
      for _ = 1, n do
        for _, x in ipairs(leaves) do x.grad = nil end
        fn(table.unpack(inputs)):backward(seed)
      end
    end,
  }
end

--- Floors as contenders: as many bytes are copied; as many multiplications are made in square matrices.
local function floor_of(kind, amount)
  if kind == "bytes" then return function(n) floors.move(amount, n) end end
  local size = 512
  return function(n)
    local wanted = n * amount / (2 * size ^ 3)
    local whole = math.ceil(wanted)
    local start = timing.clock()
    floors.multiply(size, size, size, whole)
    return (timing.clock() - start) * wanted / whole
  end
end

local function line(name, phase, kind, times)
  local text = ("%-36s %-8s %-8s %9s   optlua %9s %6.2f×"):format(name, phase, kind, timing.text(times[1]),
    timing.text(times[2]), times[2] / times[1])
  if not times[3] then return text end
  local ratio = times[2] / times[3]
  return ("%s   torch %9s, ratio %5.2f%s"):format(text, timing.text(times[3]), ratio, ratio > LIMIT and "  TOO SLOW" or "")
end

local layers = {}

--- Prints a line for each case (whose name contains `only`, if given), forward and with backward.
---@param threads integer
---@param only? string
---@param opts? { rounds?: integer, seconds?: number }
function layers.run(threads, only, opts)
  optlua.set_num_threads(threads)
  print(("\nlayers, %d thread%s"):format(threads, threads == 1 and "" or "s"))
  for _, item in ipairs(cases) do
    local fns = item.name:find(only or "", 1, true) and work(item.make) or {}
    for phase, fn in ipairs(fns) do
      local word = phase == 1 and "forward" or "both"
      local contenders = { { item.floor.kind, floor_of(item.floor.kind, item.floor[phase]) }, { "optlua", fn } }
      contenders[3] = peer.contender("peer_layers", item.name, word, threads)
      print(line(item.name, word, item.floor.kind, timing.interleaved(contenders, opts)))
      io.stdout:flush()
    end
  end
end

return layers
