-- Loads the models of make_models.py, trains them ten steps, and saves them and their outputs into a folder,
-- for check_models.py:
--   build/optlua tests/golden/save_models.lua FOLDER
package.path = "tests/?.lua;" .. package.path
local optlua = require "optlua"
local ported = require "models.ported"

local folder = assert(arg[1], "a folder expected")
for _, name in ipairs { "resnet18", "gpt2" } do
  local model, path = ported.build(name)
  model:load(path)
  ported.train(model, ported.recorded(name))
  model:save(("%s/%s.safetensors"):format(folder, name))
  optlua.save(("%s/%s_outputs.safetensors"):format(folder, name), { outputs = ported.output(model, ported.recorded(name)) })
end
