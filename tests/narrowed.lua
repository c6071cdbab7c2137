-- narrowed: trains with narrow states from one step to another: begins, or goes on from the checkpoint of another process, and
-- leaves one. Prints numbers that show any difference in bits. Run by tests/optim_narrow_spec.lua:
--
--   optlua tests/narrowed.lua FOLDER FROM TO
local optlua = require "optlua"
local nn, optim, checkpoint = optlua.nn, optlua.optim, optlua.checkpoint

local place, from, to = arg[1], tonumber(arg[2]), tonumber(arg[3])
if from == 0 then optlua.manual_seed(5) end -- afterwards the seed comes from the checkpoint

local function build(dtype, rounding)
  local model = nn.Sequential { nn.Linear(300, 301), nn.Linear(301, 70), nn.Linear(70, 3) }
  return { model = model, optimizer = optim.container(model, "AdamW",
    { amsgrad = true, state_dtype = dtype, state_rounding = rounding, ema = 0.9 }) }
end

local function give_gradients(model, k)
  for i, p in ipairs(model:parameters()) do
    local n = p:numel()
    p.grad = ((optlua.arange(n) * (0.37 + 0.01 * i) + k):sin() * 1e-2):reshape(p.shape)
  end
end

local function digest(state)
  local names, words = {}, {}
  for name in pairs(state) do names[#names + 1] = name end
  table.sort(names)
  for i, name in ipairs(names) do
    local value = state[name]
    if optlua.is_tensor(value) then
      local flat = value:to("float64"):reshape(-1)
      value = (flat * (optlua.arange(flat:numel()):to "float64" * 0.7):cos()):sum():item()
    end
    words[i] = name .. " " .. (type(value) == "number" and ("%.17g"):format(value) or type(value))
  end
  return table.concat(words, "\n")
end

for _, dtype in ipairs { "bfloat16", "8bit", "8bit-all" } do
  for _, rounding in ipairs { false, "stochastic" } do
    local path = ("%s/%s-%s-%%d"):format(place, dtype, rounding)
    local parts = build(dtype, rounding or nil)
    if from > 0 then checkpoint.load(path:format(from), parts) end
    for k = from + 1, to do
      give_gradients(parts.model, k)
      parts.optimizer:step()
    end
    checkpoint.save(path:format(to), parts)
    print(dtype, rounding)
    print(digest(parts.model:state_dict()))
    print(digest(parts.optimizer:state_dict()))
  end
end
