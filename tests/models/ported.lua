-- The models that were made in PyTorch, as tests/golden/make_models.py has them, and what it did to them.
local optlua = require "optlua"
local nn = optlua.nn

local ported = {}

local folder = "tests/golden/models/"

local build = {
  resnet18 = function() return require "models.resnet18"(8, 10) end,
  gpt2 = function()
    return require "models.gpt2" { vocabulary = 256, context = 64, layers = 2, width = 64, heads = 4 }
  end,
}

--- A new model, and the file in which PyTorch saved the same.
function ported.build(name) return build[name](), folder .. name .. ".safetensors" end

--- What PyTorch recorded: inputs, targets, outputs, losses, trained.
function ported.recorded(name)
  local data = optlua.load(folder .. name .. "_data.safetensors")
  data.targets = data.targets:to "int64"
  -- Pixels become -1 … 1; ids become int64.
  data.inputs = data.inputs.ndim == 5 and data.inputs:to "float32" / 127.5 - 1 or data.inputs:to "int64"
  return data
end

--- What a model computes of the first batch in evaluation mode.
function ported.output(model, data)
  model:eval()
  return optlua.no_grad(function() return model(data.inputs[1]) end)
end

--- Ten steps of AdamW, one a batch; the losses.
function ported.train(model, data)
  model:train()
  local optimizer, losses = optlua.optim.AdamW(model, { lr = 1e-3 }), {}
  for step = 1, data.inputs.shape[1] do
    optimizer:zero_grad()
    local logits = model(data.inputs[step])
    local loss = nn.functional.cross_entropy(logits:reshape(-1, logits.shape[logits.ndim]), data.targets[step]:reshape(-1))
    loss:backward()
    optimizer:step()
    losses[step] = loss:item()
  end
  return losses
end

return ported
