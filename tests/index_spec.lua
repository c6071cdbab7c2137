-- t[key] and t[key] = value.
local optlua = require "optlua"
local tensor = optlua.tensor

local fails = require("fails").matching

local function ints(list) return tensor(list, "int64") end

local function grid() return optlua.arange(12):reshape(3, 4) end

describe("reading by a key", function()
  local t = grid()

  it("takes one position of dimension 1", function()
    assert.are.same({ 4, 5, 6, 7 }, t[2]:totable())
    assert.are.same({ 8, 9, 10, 11 }, t[-1]:totable())
    assert.are.equal(6, t[2][3]:item())
    assert.are.same({ 0, 1, 2, 3 }, t[1.0]:totable())
  end)

  it("takes a list of positions and slices", function()
    assert.are.equal(6, t[{ 2, 3 }]:item())
    assert.are.same({ 4, 5, 6, 7 }, t[{ 2 }]:totable())
    assert.are.same({ 1, 5, 9 }, t[{ {}, 2 }]:totable())
    assert.are.same({ { 5, 6 }, { 9, 10 } }, t[{ { 2, 3 }, { 2, 3 } }]:totable())
    assert.are.same({ { 5, 6 }, { 9, 10 } }, t[{ { -2, -1 }, { 2, -2 } }]:totable())
    assert.are.same({ { 0, 2 }, { 8, 10 } }, t[{ { 1, 3, 2 }, { 1, 4, 2 } }]:totable())
    assert.are.same({ { 0, 3 } }, t[{ { 1, 1 }, { 1, 4, 3 } }]:totable())
    assert.are.same({ 3, 4 }, t[{}].shape)
  end)

  it("gives views", function()
    local own = grid()
    own[{ 2, { 2, 3 } }]:fill_(0)
    assert.are.same({ 4, 0, 0, 7 }, own[2]:totable())
  end)

  it("allows empty slices", function()
    assert.are.same({ 0, 4 }, t[{ { 1, 0 } }].shape)
    assert.are.same({ 0, 4 }, t[{ { 4, 3 } }].shape)
    assert.are.same({ 3, 0 }, t[{ {}, { 3, 2 } }].shape)
    assert.are.same({ 3, 0 }, t[{ {}, { 3, -3 } }].shape)
    assert.are.same({ 0 }, optlua.zeros(0)[{ { 1, -1 } }].shape)
  end)

  it("takes int64 positions, which are data from 0", function()
    assert.are.same({ { 8, 9, 10, 11 }, { 0, 1, 2, 3 } }, t[ints { 2, 0 }]:totable())
    assert.are.same({ { 3, 0 }, { 7, 4 }, { 11, 8 } }, t[{ {}, ints { 3, 0 } }]:totable())
    assert.are.same({ 7, 4 }, t[{ 2, ints { 3, 0 } }]:totable())
    assert.are.same({ 2, 2, 4 }, t[ints { { 0, 1 }, { 2, 0 } }].shape)
    assert.are.same({ 4 }, t[ints(1)].shape)
    assert.are.same({ 0, 4 }, t[ints {}].shape)
  end)

  it("takes masks", function()
    assert.are.same({ 9, 10, 11 }, t[t:gt(8)]:totable())
    assert.are.same({ { 0, 1, 2, 3 }, { 8, 9, 10, 11 } }, t[tensor { true, false, true }]:totable())
    assert.are.same({ 0 }, t[t:gt(99)].shape)
    assert.are.same({ 8, 9 }, t:t()[t:t():gt(7)][tensor { true, true, false, false }]:totable())
    local cube = optlua.arange(8):reshape(2, 2, 2)
    assert.are.same({ { 2, 3 }, { 4, 5 } }, cube[tensor { { false, true }, { true, false } }]:totable())
  end)

  it("is recorded", function()
    for key, expected in pairs {
      [2] = { { 0, 0 }, { 1, 1 } },
      [{ {}, 1 }] = { { 1, 0 }, { 1, 0 } },
      [{ { 1, 2 }, { 2, 2 } }] = { { 0, 1 }, { 0, 1 } },
      [ints { 1, 1 }] = { { 0, 0 }, { 2, 2 } },
      [tensor { { true, false }, { false, true } }] = { { 1, 0 }, { 0, 1 } },
    } do
      local w = optlua.ones(2, 2, { requires_grad = true })
      w[key]:sum():backward()
      assert.are.same(expected, w.grad:totable())
    end
  end)

  it("says what is wrong", function()
    fails("^tests/index_spec.lua:%d+: index: position 4 is out of range for dimension 1 of size 3",
      function() return t[4] end)
    fails("position %-4 is out of range for dimension 1 of size 3", function() return t[-4] end)
    fails("positions count from 1, got 0", function() return t[0] end)
    fails("position 5 is out of range for dimension 2 of size 4", function() return t[{ 1, 5 }] end)
    fails("position 5 is out of range for dimension 2", function() return t[{ 1, { 2, 5 } }] end)
    fails("dimension 1: positions count from 1, got 0", function() return t[{ { 0, 1 } }] end)
    fails("dimension 2: integer expected, got 1.5", function() return t[{ 1, 1.5 }] end)
    fails("dimension 1: integer expected, got string", function() return t[{ "1" }] end)
    fails("3 positions for a tensor of 2 dimensions", function() return t[{ 1, 1, 1 }] end)
    fails("{ first, last }", function() return t[{ { 1 } }] end)
    fails("{ first, last }", function() return t[{ { 1, 2, 3, 4 } }] end)
    fails("the slice ends at 1, before it begins", function() return t[{ { 3, 1 } }] end)
    fails("a step of at least 1 expected, got 0", function() return t[{ { 1, 3, 0 } }] end)
    fails("a step of at least 1 expected, got %-1", function() return t[{ { 1, 3, -1 } }] end)
    assert.are.same({ t[1]:totable() }, t[{ { 1, 3, math.maxinteger } }]:totable())
    assert.are.equal(0, #t[{ { 2, 1, math.maxinteger } }])
    fails("got the key x", function() return t[{ 1, x = 1 }] end)
    fails("a slice has no names", function() return t[{ { first = 1 } }] end)
    fails("integer, list, index tensor or mask expected, got boolean", function() return t[true] end)
    fails("an index tensor of int64 expected, got float32", function() return t[tensor { 1 }] end)
    fails("one index tensor is allowed", function() return t[{ ints { 0 }, ints { 0 } }] end)
    fails("a mask of shape %(2%) does not fit a tensor of shape %(3, 4%)", function() return t[tensor { true, false }] end)
    fails("an index tensor of int64 expected, got uint8", function() return t[{ tensor { true, false, true } }] end)
    fails("0 dimensions has no positions", function() return tensor(1)[1] end)
    fails("index_select: ", function() return t[ints { 3 }] end)
    fails("index_select: ", function() return t[ints { -1 }] end)
    fails("more than 8 dimensions", function() return optlua.zeros(1, 1, 1, 1, 1, 1, 1, 1)[optlua.zeros(1, 1, { dtype = "int64" })] end)
  end)
end)

describe("assigning by a key", function()
  local function assigned(key, value)
    local t = grid()
    t[key] = value
    return t:totable()
  end
  local rest = { { 0, 1, 2, 3 }, { 4, 5, 6, 7 }, { 8, 9, 10, 11 } }

  it("writes numbers and tensors, which broadcast", function()
    assert.are.same({ rest[1], { -1, -1, -1, -1 }, rest[3] }, assigned(2, -1))
    assert.are.same({ rest[1], { 1, 2, 3, 4 }, rest[3] }, assigned(2, ints { 1, 2, 3, 4 }))
    assert.are.same({ rest[1], { 4, 5, 6, -1 }, rest[3] }, assigned({ 2, 4 }, -1))
    assert.are.same({ { 7, 1, 2, 3 }, { 8, 5, 6, 7 }, { 9, 9, 10, 11 } }, assigned({ {}, 1 }, ints { 7, 8, 9 }))
    assert.are.same({ { 7, 1, 7, 3 }, rest[2], { 7, 9, 7, 11 } }, assigned({ { 1, 3, 2 }, { 1, 4, 2 } }, 7))
    assert.are.same({ { 7, 7, 7, 7 }, { 7, 7, 7, 7 }, { 7, 7, 7, 7 } }, assigned({}, 7))
    assert.are.same(rest, assigned({ { 1, 0 } }, 7))
  end)

  it("writes through index tensors and masks", function()
    assert.are.same({ { 9, 9, 9, 9 }, rest[2], { 9, 9, 9, 9 } }, assigned(ints { 2, 0 }, 9))
    assert.are.same({ { 0, 1, -1, -2 }, { 4, 5, -3, -4 }, { 8, 9, -5, -6 } },
      assigned({ {}, ints { 2, 3 } }, ints { { -1, -2 }, { -3, -4 }, { -5, -6 } }))
    assert.are.same({ rest[1], { 4, 5, 9, 9 }, rest[3] }, assigned({ 2, ints { 2, 3 } }, 9))
    assert.are.same({ { 0, 1, 2, 0 }, { 0, 0, 0, 0 }, { 0, 0, 0, 0 } }, assigned(grid():gt(2), 0))
    assert.are.same({ rest[1], rest[2], { 8, -1, -2, -3 } }, assigned(grid():gt(8), ints { -1, -2, -3 }))
    assert.are.same({ rest[1], { 5, 5, 5, 5 }, rest[3] }, assigned(tensor { false, true, false }, 5))
    assert.are.same(rest, assigned(grid():gt(99), 0))
    local t = optlua.zeros(2, 3):t()
    t[t:eq(0)] = 1
    t[t:eq(1)] = optlua.arange(6):to "float32"
    assert.are.same({ { 0, 1 }, { 2, 3 }, { 4, 5 } }, t:totable())
  end)

  it("converts to the tensor's dtype", function()
    local t = optlua.zeros(2, { dtype = "uint8" })
    t[1] = tensor { 3.7 }
    assert.are.same({ 3, 0 }, t:totable())
    local half = optlua.zeros(2, { dtype = "bfloat16" })
    half[2] = 1.5
    assert.are.same({ 0, 1.5 }, half:totable())
  end)

  it("reads before it writes where memory overlaps", function()
    local t = optlua.arange(5)
    t[{ { 2, 5 } }] = t[{ { 1, 4 } }]
    assert.are.same({ 0, 0, 1, 2, 3 }, t:totable())
  end)

  it("is recorded", function()
    local w = optlua.ones(2, 2, { requires_grad = true })
    local v = optlua.ones(2, { requires_grad = true })
    local y = w * 3
    y[1] = v * 5
    y[{ 2, 1 }] = 0
    y[tensor { { false, false }, { false, true } }] = 9
    y:sum():backward()
    assert.are.same({ { 0, 0 }, { 0, 0 } }, w.grad:totable())
    assert.are.same({ 5, 5 }, v.grad:totable())
  end)

  it("refuses leaves that require a gradient, but inside no_grad", function()
    local w = optlua.ones(2, { requires_grad = true })
    fails("leaf that requires a gradient", function() w[1] = 0 end)
    assert.are.same({ 1, 1 }, w:totable())
    optlua.no_grad(function() w[1] = 0 end)
    assert.are.same({ 0, 1 }, w:totable())
  end)

  it("says what is wrong, and then has written nothing", function()
    local t = grid()
    fails("number or tensor expected for assignment, got string", function() t[1] = "x" end)
    fails("number or tensor expected for assignment, got nil", function() t[1] = nil end)
    fails("number or tensor expected for assignment, got table", function() t[1] = { 1, 2, 3, 4 } end)
    fails("position 4 is out of range", function() t[4] = 1 end)
    fails("shape", function() t[1] = ints { 1, 2, 3 } end)
    fails("shape", function() t[ints { 0, 1 }] = ints { 1, 2, 3 } end)
    fails("shape", function() t[grid():gt(8)] = ints { 1, 2 } end)
    fails("index", function() t[ints { 0, 3 }] = 1 end)
    fails("expanded", function() optlua.zeros(1):expand(3)[{}] = 1 end)
    fails("int64 does not hold %-?nan", function() t[1] = 0 / 0 end)
    fails("int64 does not hold 0.5", function() t[ints { 0 }] = 0.5 end)
    fails("int64 does not hold 1e%+300", function() t[{ 1, 1 }] = 1e300 end)
    fails("uint8 does not hold %-1", function() tensor({ 1 }, "uint8")[1] = -1 end)
    assert.are.same(rest, t:totable())
  end)
end)
