-- Helps for tests of classes with a step of their own.
local optlua = require "optlua"

local own = {}

--- All that there is in an optimizer, as text.
function own.bits(optimizer)
  local list = {}
  local function add(name, value)
    if optlua.is_tensor(value) then value = value.dtype .. " " .. table.concat(value:detach():reshape(-1):totable(), " ") end
    if type(value) == "table" then
      for key, item in pairs(value) do add(name .. "/" .. key, item) end
    else
      list[#list + 1] = name .. "=" .. tostring(value)
    end
  end
  for name, value in pairs(optimizer:state_dict()) do add(name, value) end
  for _, group in pairs(optimizer.groups) do
    for i, p in ipairs(group.params) do add(group.names[i], p) end
  end
  table.sort(list)
  return table.concat(list, "\n")
end

--- SGD with momentum: with a state that is declared, and with one that is not.
function own.momentum(declared, extra)
  local definition = {
    name = "Momentum",
    hyper = { lr = { default = 0.1, min = 0 }, momentum = 0.9 },
    state = declared and { velocity = 0 } or nil,
    step = function(_, group)
      for _, p in ipairs(group.params) do
        local s = group.state[p]
        if declared then
          s.velocity:mul_(group.momentum):add_(p.grad)
        else
          s.velocity = s.velocity and group.momentum * s.velocity + p.grad or p.grad:clone()
        end
        p:sub_(group.lr * s.velocity)
      end
    end,
  }
  for key, value in pairs(extra or {}) do definition[key] = value end
  return optlua.optim.define(definition)
end

--- Tensors as pairs of a name and a tensor.
function own.named(list)
  local result = {}
  for i, p in ipairs(list) do result[i] = { "p" .. i, p } end
  return result
end

return own
