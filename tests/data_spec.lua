-- Datasets, the loader, evaluation, metrics.
local optlua = require "optlua"
local data, nn = optlua.data, optlua.nn

local fails = require("fails").matching

local function numbers(n)
  return { n = n, get = function(i) return i, 10 * i end }
end

--- The first values of all batches of an epoch, as lists.
local function epoch(loader)
  local batches = {}
  for x in loader:batches() do batches[#batches + 1] = x:totable() end
  return batches
end

local function flat(batches)
  local list = {}
  for _, batch in ipairs(batches) do table.move(batch, 1, #batch, #list + 1, list) end
  return list
end

describe("the digits", function()
  it("are 1,437 and 360 images of 64 pixels with labels, always split in the same way", function()
    local train, test = data.digits()
    assert.same({ 1437, 360 }, { train.n, #test })
    local x, y = train.get(1)
    assert.same({ 64 }, x.shape)
    assert.same({ "float32", "int64" }, { x.dtype, y.dtype })
    local again = data.digits()
    assert.is_true(again.get(77):equal((train.get(77))))
    local images, labels = train.batch(optlua.arange(0, 1437))
    assert.is_true(images:min():item() == 0 and images:max():item() == 1)
    local counts = {}
    for _, label in ipairs(labels:totable()) do counts[label] = (counts[label] or 0) + 1 end
    for label = 0, 9 do assert.is_true(counts[label] > 120) end
  end)
end)

describe("a dataset", function()
  it("of tensors gives rows and batches", function()
    local set = data.tensors(optlua.tensor { { 1, 2 }, { 3, 4 } }, optlua.tensor({ 7, 8 }, { dtype = "int64" }))
    local x, y = set.get(2)
    assert.same({ { 3, 4 }, 8 }, { x:totable(), y:item() })
    local xs, ys = set.batch(optlua.tensor({ 1, 0 }, { dtype = "int64" }))
    assert.same({ { { 3, 4 }, { 1, 2 } }, { 8, 7 } }, { xs:totable(), ys:totable() })
    fails("argument 2 has 3 items, the first has 2", data.tensors, optlua.zeros(2), optlua.zeros(3))
    fails("argument 1: a tensor of at least one dimension", data.tensors, optlua.tensor(1))
    fails("at least one tensor", data.tensors)
  end)

  it("can be a part of another", function()
    local set = data.subset(data.tensors(optlua.arange(0, 10)), { 3, 1 })
    assert.equal(2, #set)
    assert.same({ 2, 0 }, { set.get(1):item(), set.get(2):item() })
    assert.same({ { 2, 0 } }, epoch(data.loader(set, { batch_size = 4 })))
    local own = data.subset(numbers(5), { 5 })
    assert.same({ 5, 5 }, { (own.get(1)), own.dataset.n })
    fails("positions", data.subset, numbers(5), { 6 })
  end)
end)

describe("pad_collate", function()
  local set = { n = 3, get = function(i) return optlua.arange(1, i + 1), i, optlua.tensor { i, i } end }

  it("pads sequences, tells their lengths, and stacks the rest", function()
    local x, lengths, y, z = data.loader(set, { batch_size = 3, collate = data.pad_collate { padding_value = -1 } }):batches()()
    assert.same({ { 1, -1, -1 }, { 1, 2, -1 }, { 1, 2, 3 } }, x:totable())
    assert.same({ { 1, 2, 3 }, "int64", "int64" }, { lengths:totable(), lengths.dtype, x.dtype })
    assert.same({ { 1, 2, 3 }, { { 1, 1 }, { 2, 2 }, { 3, 3 } } }, { y:totable(), z:totable() })
    local left = data.pad_collate { padding_side = "left", batch_first = false }
    assert.same({ { 0, 4 }, { 5, 6 } }, (left { { optlua.tensor { 5 } }, { optlua.tensor { 4, 6 } } }):totable())
  end)

  it("refuses what is no sequence", function()
    fails("sequence 1: tensor expected", data.pad_collate(), { { 1 } })
    fails("sequence 1 has no steps", data.pad_collate(), { { optlua.tensor(1) } })
    fails("item 2 has 2 values, the first has 1", data.pad_collate(), { { optlua.ones(1) }, { optlua.ones(1), 1 } })
    fails("item 1 has no values", data.pad_collate(), { {} })
    fails("padding_value: expected a number", data.pad_collate, { padding_value = "x" })
  end)
end)

describe("concat", function()
  it("puts datasets one after the other", function()
    local both = data.concat { numbers(3), data.tensors(optlua.arange(0, 0), optlua.arange(0, 0)), numbers(2) }
    assert.same({ { 1, 2, 3, 1 }, { 2 } }, epoch(data.loader(both, { batch_size = 4 })))
    assert.equal(0, #data.concat {})
    fails("a position from 1 to 5 expected, got 6", both.get, 6)
    fails("data.concat: a dataset expected", data.concat, { 7 })
    fails("data.concat: datasets: expected a list", data.concat, numbers(2))
  end)
end)

describe("random_split", function()
  --- The items of parts, and whether they are all from 1 to n.
  local function items(n, ...)
    local lists, seen = {}, {}
    for k, part in ipairs { ... } do
      lists[k] = {}
      for i = 1, #part do
        lists[k][i] = part.get(i)
        assert.is_nil(seen[lists[k][i]])
        seen[lists[k][i]] = true
      end
    end
    assert.equal(n, #seen)
    return lists
  end

  it("puts each item into exactly one part, in an order of the seed", function()
    local one = items(10, data.random_split(numbers(10), { 7, 3 }, 1))
    assert.same({ 7, 3 }, { #one[1], #one[2] })
    assert.same(one, items(10, data.random_split(numbers(10), { 7, 3 }, 1)))
    assert.not_same(one, items(10, data.random_split(numbers(10), { 7, 3 }, 2)))
    optlua.manual_seed(1)
    assert.same(one, items(10, data.random_split(numbers(10), { 7, 3 })))
  end)

  it("takes fractions as PyTorch does: what is left goes to the first parts", function()
    local function sizes(n, parts)
      local list = items(n, data.random_split(numbers(n), parts, 0))
      for k, part in ipairs(list) do list[k] = #part end
      return list
    end
    assert.same({ 8, 2 }, sizes(10, { 0.8, 0.2 }))
    assert.same({ 4, 4, 3 }, sizes(11, { 1 / 3, 1 / 3, 1 / 3 }))
    assert.same({ 5 }, sizes(5, { 1 }))
    assert.same({ 0, 5 }, sizes(5, { 0, 1 }))
    assert.same({ 0, 0 }, sizes(0, { 0.5, 0.5 }))
  end)

  it("refuses parts that do not add up", function()
    fails("the lengths add up to 9, the dataset has 10 items", data.random_split, numbers(10), { 7, 2 })
    fails("the fractions add up to 0.9, not to 1", data.random_split, numbers(10), { 0.8, 0.1 })
    fails("at least 0", data.random_split, numbers(10), { 11, -1 })
    fails("expected a list", data.random_split, numbers(10), 0.5)
    fails("seed: expected an integer", data.random_split, numbers(10), { 10 }, 1.5)
  end)
end)

describe("transformed", function()
  local function noise(x, random) return { x, random(), random(6), random(3, 4) } end

  it("draws by seed, epoch and item, whoever asks first", function()
    local set = data.transformed(numbers(50), noise, { seed = 4 })
    local x, y = set.get(7, 2)
    assert.equal(70, y)
    set.get(9, 2)
    set.get(7, 1)
    assert.same(x, (set.get(7, 2)))
    assert.same(x, (data.subset(set, { 3, 7 }).get(2, 2)))
    assert.same(x, (data.concat({ numbers(1), set }).get(8, 2)))
    assert.not_same(x, (set.get(7, 3)))
    assert.same((set.get(7)), (set.get(7, 1)))
    assert.not_equal(x[2], (set.get(8, 2))[2])
    assert.not_equal(x[2], (data.transformed(numbers(50), noise, { seed = 5 }).get(7, 2))[2])
    local sum = 0
    for i = 1, 50 do
      local value = set.get(i)
      sum = sum + value[2]
      assert.is_true(value[2] >= 0 and value[2] < 1 and value[3] >= 1 and value[3] <= 6 and value[4] // 1 >= 3 and value[4] <= 4)
    end
    assert.near(25, sum, 8)
  end)

  it("is told the epoch by the loader", function()
    local seen = {}
    local set = { n = 2, get = function(_, at) seen[#seen + 1] = at return 1 end }
    local loader = data.loader(data.subset(data.transformed(set, function(x) return x end), { 1, 2 }), { batch_size = 2 })
    for _ = 1, 2 do epoch(loader) end
    assert.same({ 1, 1, 2, 2 }, seen)
    local batched = data.loader({ n = 1, get = print, batch = function(_, at) return optlua.tensor { at } end })
    epoch(batched)
    assert.same({ { 2 } }, epoch(batched))
  end)

  it("refuses what is no transform", function()
    fails("transform: expected a callable", data.transformed, numbers(1), 7)
    fails('unknown option "sed"', data.transformed, numbers(1), print, { sed = 1 })
  end)
end)

describe("a loader", function()
  it("says how it is gone through where it is taken for a list or an iterator", function()
    local set = data.tensors(optlua.arange(4))
    local loader = data.loader(set, { batch_size = 2 })
    fails("loader:batches%(%)", function() for _ in ipairs(loader) do print "reached" end end)
    fails("loader:batches%(%)", function() for _ in pairs(loader) do print "reached" end end)
    fails("loader:batches%(%)", function() for _ in loader do print "reached" end end)
    fails("loader:batches%(%)", function() return loader[1] end)
    assert.is_nil(loader.collate)
    for _, one in ipairs { set, data.transformed(set, function(x) return x end), data.subset(set, { 1 }) } do
      fails("dataset.get%(i%)", function() for _ in ipairs(one) do print "reached" end end)
      fails("dataset.get%(i%)", function() for _ in pairs(one) do print "reached" end end)
      fails("dataset.get%(i%)", function() for _ in one do print "reached" end end)
      fails("dataset.get%(i%)", function() return one[1] end)
      assert.is_nil(one.classes)
    end
  end)

  it("batches in order, the last one smaller or dropped", function()
    local loader = data.loader(numbers(5), { batch_size = 2 })
    assert.equal(3, #loader)
    assert.same({ { 1, 2 }, { 3, 4 }, { 5 } }, epoch(loader))
    local dropping = data.loader(numbers(5), { batch_size = 2, drop_last = true })
    assert.equal(2, #dropping)
    assert.same({ { 1, 2 }, { 3, 4 } }, epoch(dropping))
  end)

  it("shuffles from the seed, differently each epoch", function()
    local function run(seed)
      local loader = data.loader(numbers(50), { batch_size = 8, shuffle = true, seed = seed })
      return flat(epoch(loader)), flat(epoch(loader))
    end
    local first, second = run(3)
    local again = run(3)
    assert.same(first, again)
    assert.not_same(first, second)
    assert.not_same(first, run(4))
    table.sort(first)
    for i = 1, 50 do assert.equal(i, first[i]) end
  end)

  it("takes its order from manual_seed unless given a seed", function()
    optlua.manual_seed(11)
    local one = flat(epoch(data.loader(numbers(20), { shuffle = true })))
    optlua.manual_seed(11)
    assert.same(one, flat(epoch(data.loader(numbers(20), { shuffle = true }))))
    optlua.manual_seed(12)
    assert.not_same(one, flat(epoch(data.loader(numbers(20), { shuffle = true }))))
  end)

  it("resumes inside an epoch with the same remaining order", function()
    local function make() return data.loader(numbers(10), { batch_size = 2, shuffle = true, seed = 5 }) end
    local whole = make()
    epoch(whole)
    local second, third = epoch(whole), epoch(whole)
    local stopped, seen = make(), {}
    epoch(stopped)
    for x in stopped:batches() do
      seen[#seen + 1] = x:totable()
      if #seen == 2 then break end
    end
    local resumed = make()
    resumed:load_state_dict(stopped:state_dict())
    for _, batch in ipairs(epoch(resumed)) do seen[#seen + 1] = batch end
    assert.same(second, seen)
    assert.same(third, epoch(resumed))
  end)

  it("begins an epoch anew that was left", function()
    local loader = data.loader(numbers(4), { batch_size = 2 })
    loader:batches()()
    assert.same({ { 1, 2 }, { 3, 4 } }, epoch(loader))
  end)

  it("collates numbers, tensors, and anything with a function of one's own", function()
    local set = { n = 2, get = function(i) return optlua.full({ 2 }, i), i, i + 0.5 end }
    for x, y, z in data.loader(set, { batch_size = 2 }):batches() do
      assert.same({ { 1, 1 }, { 2, 2 } }, x:totable())
      assert.same({ "int64", "float32" }, { y.dtype, z.dtype })
    end
    local words = { n = 2, get = function(i) return ("w"):rep(i) end }
    fails("value 1 of an item is a string", function() return data.loader(words):batches()() end)
    local joined = data.loader(words, { batch_size = 2, collate = function(items) return items[1][1] .. items[2][1] end })
    assert.equal("www", joined:batches()())
  end)

  it("refuses items that do not fit together, and batches that would end the loop", function()
    local function first(get, opts) return data.loader({ n = 2, get = get }, opts or { batch_size = 2 }):batches()() end
    fails("item 2 has 1 values, the first has 2", first, function(i) return 1, i == 1 and 2 or nil end)
    fails("item 2 has 2 values, the first has 1", first, function(i) return 1, i == 2 and 2 or nil end)
    fails("item 1 has no values", data.collate, { {} })
    fails("batch 1 has nil as its first value", first, function(i) return i end, { collate = function() end })
    fails("a list of items expected", data.collate)
    fails("a list of items expected", data.collate, {})
  end)

  it("stays where it is when an item fails", function()
    local broken = true
    local loader = data.loader { n = 3, get = function(i)
      if i == 2 and broken then error "broken item" end
      return i
    end }
    local batch = loader:batches()
    assert.same({ 1 }, batch():totable())
    fails("broken item", batch)
    assert.equal(1, loader:state_dict().position)
    broken = false
    assert.same({ 2 }, batch():totable())
    assert.same({ 3 }, batch():totable())
    assert.is_nil(batch())
  end)

  it("says when an item gives nothing, and how get is called", function()
    fails("dataset.get%(1%) returned nothing", function() data.loader({ n = 2, get = function() end }):batches()() end)
    local set = data.tensors(optlua.zeros(3))
    fails("called with a dot", set.get, set, 1)
    fails("a position from 1 to 3 expected, got 4", set.get, 4)
    fails("a position from 1 to 3 expected, got 0", data.subset(set, { 1, 2, 3 }).get, 0)
  end)

  it("says that two datasets came where one was wanted", function()
    fails("two datasets came.*local train, test =", function() data.loader(data.digits()) end)
  end)

  it("handles empty sets and refuses bad ones", function()
    assert.same({}, epoch(data.loader(numbers(0), { batch_size = 3 })))
    fails("a dataset expected", data.loader, 7)
    fails("dataset.n", data.loader, { n = 1.5, get = print })
    fails('unknown option "batchsize".*"batch_size"', data.loader, numbers(1), { batchsize = 2 })
    fails("batch_size: expected", data.loader, numbers(1), { batch_size = 0 })
    fails("position", function()
      data.loader(numbers(4), { batch_size = 2 }):load_state_dict { seed = 1, epoch = 1, position = 9 }
    end)
  end)
end)

describe("evaluate", function()
  local set = data.tensors(optlua.tensor { { 2, 1 }, { 0, 3 }, { 5, 1 } }, optlua.tensor({ 0, 1, 1 }, { dtype = "int64" }))

  it("computes metrics over all batches without gradients", function()
    local model = nn.Sequential { nn.Identity() }
    local result = optlua.evaluate(model, set, { accuracy = optlua.metrics.accuracy() }, { batch_size = 2 })
    assert.near(2 / 3, result.accuracy, 1e-12)
    local again = optlua.evaluate(model, data.loader(set), { accuracy = optlua.metrics.accuracy() })
    assert.near(2 / 3, again.accuracy, 1e-12)
  end)

  it("says that metrics have names", function()
    fails("write { accuracy = metrics.accuracy%(%) }", optlua.evaluate, nn.Linear(1, 1), numbers(1), optlua.metrics.accuracy())
  end)

  it("averages losses over items, whatever the batches", function()
    local model, loss = nn.Identity(), optlua.metrics.loss(nn.CrossEntropyLoss())
    local whole = optlua.evaluate(model, set, { loss = loss }).loss
    assert.near(whole, optlua.evaluate(model, set, { loss = loss }, { batch_size = 2 }).loss, 1e-6)
  end)

  it("restores each module's mode, also after an error", function()
    local model = nn.Sequential { nn.Dropout(0.5), nn.Linear(2, 2) }
    model[1]:eval()
    optlua.evaluate(model, set, { accuracy = optlua.metrics.accuracy() })
    assert.same({ true, false, true }, { model.training, model[1].training, model[2].training })
    local broken = { update = function() error "broken metric" end, compute = print, reset = function() end }
    fails("broken metric", optlua.evaluate, model, set, { broken = broken })
    assert.same({ true, false, true }, { model.training, model[1].training, model[2].training })
    assert.is_true(optlua.is_grad_enabled())
    fails('metric "x" needs update, compute and reset', optlua.evaluate, model, set, { x = {} })
    fails("model: a module expected, got nil", optlua.evaluate)
    fails("metrics: a table of metrics by name expected, got nil", optlua.evaluate, model, set)
  end)

  it("can leave targets out of the accuracy", function()
    local metric = optlua.metrics.accuracy { ignore_index = -1 }
    metric:update(optlua.tensor { { 2, 1 }, { 0, 3 } }, optlua.tensor({ 0, -1 }, { dtype = "int64" }))
    assert.equal(1, metric:compute())
    metric:reset()
    assert.is_true(metric:compute() ~= metric:compute())
  end)
end)
