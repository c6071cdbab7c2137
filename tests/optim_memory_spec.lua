-- Updates of arrays that lie in memory and not in a cache: the machine fetches them ahead, and computes
-- the same bits.
local optlua = require "optlua"
local optim = optlua.optim

local FAR, PART = 512e6, 1000000 -- bytes from which on arrays are fetched in any case (runtime/rule/batch.c); elements

-- So many elements that an update moves more than FAR bytes; the last tile is not full.
local function count_for(class)
  local bytes = tonumber(class:program({ step = 2 }):match "([%d.]+) bytes an element")
  return math.ceil(1.05 * FAR / bytes / 256) * 256 + 37
end

-- Its last instruction adds to a number of the group, the one before stores a narrow state.
local Narrow = optim.define {
  name = "Narrow",
  hyper = { lr = 0.1 },
  state = { half = { dtype = "bfloat16" }, whole = 0, more = 0 },
  group = { total = 0 },
  before = function(group) group.total = 0 end,
  update = function(p, g, s, h)
    s.half = 0.5 * s.half + g
    s.whole = s.whole + g * g
    s.more = s.more + 1
    optim.group_add("total", optim.abs(p))
    return p - h.lr * s.half / optim.sqrt(s.whole + s.more)
  end,
}

local function leaf(values, gradient)
  local p = values:clone()
  p.requires_grad = true
  p.grad = gradient:clone()
  return p
end

local function stepped(class, p)
  local optimizer = class({ p }, { lr = 0.01 })
  for _ = 1, 3 do optimizer:step() end
  return p:detach()
end

describe("an update from memory", function()
  for _, class in ipairs { optim.AdamW, Narrow } do
    for _, threads in ipairs { 1, 2 } do
      it(("of %s with %d threads gives the bits of updates in a cache"):format(class.name, threads), function()
        local before = optlua.get_num_threads()
        optlua.set_num_threads(threads)
        optlua.manual_seed(1)
        local count = count_for(class)
        local values, gradient = optlua.randn { count }, optlua.randn { count }
        local whole = stepped(class, leaf(values, gradient))
        for first = 1, count, PART do
          local length = math.min(PART, count - first + 1)
          local part = stepped(class, leaf(values:narrow(1, first, length), gradient:narrow(1, first, length)))
          assert.is_true(whole:narrow(1, first, length):eq(part):all():item() ~= 0)
        end
        optlua.set_num_threads(before)
      end)
    end
  end
end)
