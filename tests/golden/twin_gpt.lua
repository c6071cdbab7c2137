-- twin_gpt: writes what tests/golden/twin_gpt.py trains on: the batches of scripts/char_gpt.lua, in their order,
-- and the validation windows. The commands stand at the head of twin_gpt.py.
--   optlua tests/golden/twin_gpt.lua TEXT STEPS OUT.safetensors
local optlua = require "optlua"
local data = optlua.data

local path, steps, out = arg[1], tonumber(arg[2]), arg[3]
optlua.manual_seed(1)
local train, validation = data.text(path, { context = 64 })
local loader = data.loader(train, { batch_size = 16, shuffle = true })

local ids, targets = {}, {}
for x, y in loader:batches() do
  ids[#ids + 1], targets[#targets + 1] = x, y
  if #ids == steps then break end
end
local x, y = validation.batch(optlua.arange(0, validation.n))
optlua.save(out, {
  ids = optlua.stack(ids), targets = optlua.stack(targets),                 -- (S,B,T)
  validation_ids = x, validation_targets = y,                               -- (N,T)
})
