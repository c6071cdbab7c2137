-- Looking up and writing by tensors of indices and masks.
local optlua = require "optlua"
local tensor, arange, zeros = optlua.tensor, optlua.arange, optlua.zeros

local fails = require("fails").containing

local function ids(list) return tensor(list, "int64") end

local function grid() return arange(12):reshape(3, 4) end

describe("gather", function()
  it("takes one element for each index", function()
    assert.same({ { 3, 0 }, { 5, 5 }, { 8, 11 } }, grid():gather(2, ids { { 3, 0 }, { 1, 1 }, { 0, 3 } }):totable())
    assert.same({ { 8, 1 } }, grid():gather(1, ids { { 2, 0 } }):totable())
    assert.same({ 5, 5 }, tensor(5, "int64"):gather(1, ids { 0, 0 }):totable())
    assert.same({ 0, 2 }, zeros(0, 4):gather(2, optlua.zeros(0, 2, { dtype = "int64" })).shape)
  end)

  it("moves every dtype", function()
    for _, dtype in ipairs { "uint8", "int64", "bfloat16", "float32", "float64" } do
      local x = grid():to(dtype):t()
      assert.same({ { 8, 0 } }, x:gather(2, ids { { 2, 0 } }):to("int64"):totable(), dtype)
      assert.same({ { 8, 0 }, { 9, 1 } }, x:index_select(2, ids { 2, 0 })[{ { 1, 2 } }]:to("int64"):totable(), dtype)
      assert.same({ 11, 4 }, x:take(ids { 11, 1 }):to("int64"):totable(), dtype)
    end
  end)

  it("names the index that is out of range, and its position", function()
    fails("gather: index 4 at position (2, 2) is out of range for a size of 4; indices count from 0", function()
      grid():gather(2, ids { { 0, 1 }, { 2, 4 } })
    end)
    fails("gather: index -1 at position (1, 1)", function() grid():gather(2, ids { { -1 } }) end)
    fails("gather: index 0 at position (1, 1) is out of range for a size of 0", function()
      zeros(1, 0):gather(2, ids { { 0 } })
    end)
    fails("index_select: index 3 at position (2)", function() grid():index_select(1, ids { 0, 3 }) end)
    fails("take: index 12 at position (1)", function() grid():take(ids { 12 }) end)
    fails("take_along_dim: index 4 at position (1, 2)", function() grid():take_along_dim(ids { { 0, 4 } }, 2) end)
  end)

  it("refuses indices of other dtypes and shapes", function()
    fails("gather: indices are int64, not float32", function() grid():gather(1, zeros(1, 1)) end)
    fails("gather: indices are int64, not uint8", function() grid():gather(1, zeros(1, 1, { dtype = "uint8" })) end)
    fails("gather: an index of shape (2) does not lie within the tensor, (3, 4)", function()
      grid():gather(1, ids { 0, 1 })
    end)
    fails("does not lie within", function() grid():gather(1, ids { { 0, 0, 0, 0, 0 } }) end)
    fails("index_select: a one-dimensional index was expected, got (1, 1)", function()
      grid():index_select(1, ids { { 0 } })
    end)
    fails("index_select: a 0-dimensional tensor has one position, not 2", function()
      tensor(1):index_select(1, ids { 0, 0 })
    end)
  end)
end)

describe("scatter", function()
  it("writes a tensor or a number; of repeated indices the last counts", function()
    assert.same({ 0, 0, 7, 0 }, zeros(4):scatter(1, ids { 2, 2 }, tensor { 5, 7 }):totable())
    assert.same({ 9, 0, 9, 0 }, zeros(4):scatter(1, ids { 2, 0 }, 9):totable())
    assert.same({ { 1, 0 }, { 0, 2 } }, zeros(2, 2):scatter(2, ids { { 0 }, { 1 } }, tensor { { 1 }, { 2 } }):totable())
  end)

  it("adds repeated indices", function()
    assert.same({ 0, 0, 12, 0 }, zeros(4):scatter_add(1, ids { 2, 2 }, tensor { 5, 7 }):totable())
    assert.same({ 3, 1, 1 }, arange(3):index_add(1, ids { 0, 0, 2 }, ids { 1, 2, -1 }):totable())
    assert.same({ 4 }, tensor({ 250 }, "uint8"):scatter_add(1, ids { 0 }, tensor({ 10 }, "uint8")):totable())
  end)

  it("works in place, with its own elements as source", function()
    local x = tensor { 1, 2, 3 }
    assert.equal(x, x:scatter_add_(1, ids { 2, 1, 0 }, x))
    assert.same({ 4, 4, 4 }, x:totable())
    x:index_copy_(1, ids { 0 }, tensor { 9 })
    assert.same({ 9, 4, 4 }, x:totable())
  end)

  it("writes nothing where one index is wrong", function()
    local x = tensor { 1, 2, 3 }
    fails("scatter_: index 3 at position (2)", function() x:scatter_(1, ids { 0, 3 }, 9) end)
    fails("index_add_: index -1 at position (2)", function() x:index_add_(1, ids { 0, -1 }, tensor { 1, 1 }) end)
    assert.same({ 1, 2, 3 }, x:totable())
  end)

  it("refuses what does not fit", function()
    local own = ids { 0, 1 }
    fails("scatter: uint8 does not hold 300", function() tensor({ 1 }, "uint8"):scatter(1, ids { 0 }, 300) end)
    fails("scatter_: int64 does not hold 0.5", function() own:scatter_(1, ids { 0 }, 0.5) end)
    fails("scatter_: the index shares its memory with the tensor", function() own:scatter_(1, own, 1) end)
    fails("the tensor is expanded", function() zeros(1):expand(3):scatter_(1, ids { 0 }, 1) end)
    fails("scatter: src is float64, the tensor float32", function()
      zeros(2):scatter(1, ids { 0 }, zeros(1, { dtype = "float64" }))
    end)
    fails("scatter: an index of shape (2) does not lie within src, (1)", function()
      zeros(3):scatter(1, ids { 0, 1 }, zeros(1))
    end)
    fails("index_add: a source of shape (3, 1) was expected for 1 indices, got (3, 2)", function()
      zeros(3, 4):index_add(2, ids { 0 }, zeros(3, 2))
    end)
    fails("scatter_add: bfloat16 stores", function()
      zeros(2):to("bfloat16"):scatter_add(1, ids { 0 }, zeros(1):to("bfloat16"))
    end)
  end)
end)

describe("gradients of look-ups", function()
  -- Large enough to be cut between threads, with many repeats, so that the order of sums shows.
  local function gradients()
    optlua.manual_seed(3)
    local table_, x = optlua.randn(40, 64), optlua.randn(300, 200)
    local rows, picks = optlua.randint(0, 40, { 3000 }), optlua.randint(0, 200, { 300, 400 })
    table_.requires_grad, x.requires_grad = true, true
    local upstream, other = optlua.randn(3000, 64), optlua.randn(300, 400)
    local y, z = optlua.embedding(rows, table_) * upstream, x:gather(2, picks) * other
    y:sum():backward()
    z:sum():backward()
    local direct = zeros(40, 64):index_add(1, rows, upstream)
    return { table_.grad:totable(), x.grad:totable(), direct:totable() }
  end

  it("are the same bits on any number of threads", function()
    local threads = optlua.get_num_threads()
    optlua.set_num_threads(1)
    local expected = gradients()
    for n = 2, 4 do
      optlua.set_num_threads(n)
      local got = gradients()
      optlua.set_num_threads(threads)
      assert.same(expected, got, n .. " threads")
    end
  end)
end)

describe("embedding", function()
  it("gives the padding row no gradient (case 39)", function()
    local weight = optlua.ones(3, 2, { requires_grad = true })
    optlua.embedding(ids { 0, 1, 0, 2 }, weight, 0):sum():backward()
    assert.same({ { 0, 0 }, { 1, 1 }, { 1, 1 } }, weight.grad:totable())
  end)

  it("counts a negative padding row from the end, and adds up repeated ids", function()
    local weight = optlua.ones(3, 1, { requires_grad = true })
    optlua.embedding(ids { { 0, 1 }, { 0, 2 } }, weight, { padding_idx = -1 }):sum():backward()
    assert.same({ { 2 }, { 1 }, { 0 } }, weight.grad:totable())
    fails("embedding: padding_idx 3 is out of range for 3 rows", function() optlua.embedding(ids { 0 }, weight, 3) end)
    fails("embedding: padding_idx -4 is out of range", function() optlua.embedding(ids { 0 }, weight, -4) end)
  end)

  it("refuses ids outside the table, with their position (case 35)", function()
    local weight = optlua.ones(10, 2, { requires_grad = true })
    fails("embedding: index 10 at position (2) is out of range for a size of 10", function()
      optlua.embedding(ids { 0, 10 }, weight)
    end)
    fails("embedding: index -1 at position (2, 1)", function() optlua.embedding(ids { { 0 }, { -1 } }, weight) end)
    assert.is_nil(weight.grad)
  end)

  it("refuses ids that were changed before backward (case 35)", function()
    local weight, index = optlua.ones(10, 2, { requires_grad = true }), ids { 0, 1 }
    local loss = optlua.embedding(index, weight):sum()
    index[2] = 10
    assert.has_error(function() loss:backward() end)
    assert.is_nil(weight.grad)
  end)

  it("keeps the shape of ids", function()
    local weight = optlua.zeros(5, 3)
    assert.same({ 2, 4, 3 }, optlua.embedding(optlua.zeros(2, 4, { dtype = "int64" }), weight).shape)
    assert.same({ 3 }, optlua.embedding(tensor(1, "int64"), weight).shape)
    assert.same({ 0, 3 }, optlua.embedding(ids {}, weight).shape)
    fails("embedding: a weight of shape (rows, width) was expected, got (5)", function()
      optlua.embedding(ids { 0 }, zeros(5))
    end)
    fails("embedding: indices are int64, not float32", function() optlua.embedding(zeros(1), weight) end)
  end)
end)

describe("one_hot", function()
  it("makes rows of zeros with a one", function()
    assert.same({ { 0, 1, 0 }, { 1, 0, 0 } }, optlua.one_hot(ids { 1, 0 }, 3):totable())
    assert.same({ { 0, 0, 1 } }, optlua.one_hot(ids { 2 }):totable())
    assert.same({ 0, 3 }, optlua.one_hot(ids {}, 3).shape)
    fails("one_hot: index 3 at position (1) is out of range for a size of 3", function() optlua.one_hot(ids { 3 }, 3) end)
    fails("one_hot: index -1 at position (2)", function() optlua.one_hot(ids { 0, -1 }) end)
    fails("can only be inferred", function() optlua.one_hot(ids {}) end)
    fails("too large", function() optlua.one_hot(ids { 2 ^ 62 }) end)
  end)
end)

describe("masks", function()
  it("select, broadcasting both ways", function()
    local x = grid()
    assert.same({ 6, 7, 8, 9, 10, 11 }, x:masked_select(x:gt(5)):totable())
    assert.same({ 0, 4, 8 }, x:masked_select(tensor({ 1, 0, 0, 0 }, "uint8")):totable())
    assert.same({ 0, 1, 0, 1 }, arange(2):masked_select(tensor({ { 1 }, { 0 }, { 1 } }, "uint8")):totable())
    assert.same({ 0 }, x:masked_select(x:gt(100)).shape)
    fails("masked_select: a mask is uint8, not int64", function() x:masked_select(x) end)
    fails("do not broadcast", function() x:masked_select(zeros(3, { dtype = "uint8" })) end)
  end)

  it("send gradients back to where elements came from", function()
    local x = tensor({ 1, -2, 3 }, { requires_grad = true })
    local y = x:masked_select(x:gt(0)) * tensor { 10, 20 }
    y:sum():backward()
    assert.same({ 10, 0, 20 }, x.grad:totable())
  end)

  it("are found by nonzero, as positions from 0", function()
    assert.same({ { 0, 1 }, { 1, 0 } }, tensor({ { 0, 2 }, { -3, 0 } }):nonzero():totable())
    assert.same({ { 0 } }, tensor({ 0 / 0, 0, -0.0 }):nonzero():totable())
    assert.same({ 1, 0 }, tensor(1):nonzero().shape)
    assert.same({ 0, 0 }, tensor(0):nonzero().shape)
    assert.same({ 0, 2 }, zeros(0, 3):nonzero().shape)
    fails("nonzero: bfloat16 stores", function() zeros(2):to("bfloat16"):nonzero() end)
  end)

  it("are found by nonzero in order, where there are many, on any number of threads", function()
    local threads = optlua.get_num_threads()
    for _, size in ipairs { { 70001 }, { 3, 9001, 2 }, { 2, 3, 10007 } } do
      local mask = optlua.randn(size):gt(0.3)
      for n = 1, 3 do
        optlua.set_num_threads(n)
        local places, flat = mask:nonzero(), zeros(mask:numel())
        assert.same({ mask:sum():item(), #size }, places.shape)
        local at = zeros(places.shape[1], { dtype = "int64" })
        for d = 1, #size do at = at * size[d] + places:select(2, d) end
        local steps = #at - 1
        assert.is_true(at:narrow(1, 2, steps):gt(at:narrow(1, 1, steps)):all():item() == 1)
        flat:index_copy_(1, at, optlua.ones(#at))
        assert.is_true(flat:eq(mask:flatten():to("float32")):all():item() == 1)
      end
    end
    optlua.set_num_threads(threads)
    local turned = optlua.randn { 300, 40 }:gt(0):t()
    assert.same(turned:contiguous():nonzero():totable(), turned:nonzero():totable())
  end)
end)
