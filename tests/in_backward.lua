-- Helps for tests of updates in backward.
local optlua = require "optlua"
local nn, optim = optlua.nn, optlua.optim

local Bag = nn.class "Bag"

local in_backward = {}

--- What is in memory.
function in_backward.live()
  collectgarbage()
  collectgarbage()
  return require("optlua.core").hidden.memory()
end

--- Everything that an optimizer and a model hold, by name, as text.
function in_backward.bits(optimizer, model)
  local found = {}
  local function add(name, value)
    if optlua.is_tensor(value) then value = value:detach():reshape(-1):totable() end
    for i, x in ipairs(type(value) == "table" and value or { value }) do
      found[name .. "." .. i] = type(x) == "number" and ("%.17g"):format(x) or tostring(x)
    end
  end
  optimizer:step() -- closes an update that may be open
  for name, value in pairs(optimizer:state_dict()) do add(name, value) end
  for name, value in pairs(model:state_dict()) do add("model." .. name, value) end
  return found
end

--- A model, and a loss of it.
function in_backward.network()
  local model = nn.Sequential { nn.Linear(4, 6), nn.LayerNorm(6), nn.GELU(), nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 3) }
  return model, function(x) return model(x):square():mean() end
end

--- A module of some parameters, and an optimizer that updates them in backward.
function in_backward.hold(tensors, class, opts)
  local model = Bag()
  for _, name in ipairs { "a", "b", "c" } do
    if tensors[name] then model[name] = nn.Parameter(tensors[name]) end
  end
  opts = opts or { lr = 0.5 }
  opts.in_backward = true
  return model, optim.container(model, class or "SGD", opts)
end

return in_backward
