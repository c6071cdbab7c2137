-- small: a small network with a batch norm, trained on a few numbers, for tests of what optimizers do to a model.
local optlua = require "optlua"
local nn, optim = optlua.nn, optlua.optim

optlua.manual_seed(5)
local small = { x = optlua.randn { 12, 3 }, y = optlua.randn { 12, 2 } }

--- The network, and an optimizer of a class over it.
function small.make(class, options)
  optlua.manual_seed(3)
  local model = nn.Sequential { nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Linear(5, 2) }
  return { model = model, optimizer = optim.container(model, class, options or { lr = 0.05, weight_decay = 0.1, warmup_steps = 3 }) }
end

--- Makes updates; returns what it was given.
function small.train(given, steps)
  for _ = 1, steps do
    given.optimizer:zero_grad()
    nn.functional.mse_loss(given.model(small.x), small.y):backward()
    given.optimizer:step()
  end
  return given
end

--- All weights and running statistics, as they are in memory.
function small.bits(given)
  local list = {}
  for name, tensor in pairs(given.model:state_dict()) do
    list[#list + 1] = name .. " " .. table.concat(tensor:to("float64"):reshape(-1):totable(), " ")
  end
  table.sort(list)
  return table.concat(list, "\n")
end

return small
