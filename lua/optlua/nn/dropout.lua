--- dropout: random zeros while training.
local module = require "optlua.nn.module"
local signature = require "optlua.signature"

--- Sets each element to 0 with probability p and scales the others by 1/(1-p), while training
--- (Srivastava et al., 2014). Arguments p = 0.5, inplace.
---@class nn.Dropout: nn.Module
local Dropout = module.class "Dropout"

Dropout.signature = signature.new("nn.Dropout", { { "p", { default = 0.5, min = 0, max = 1 } }, { "inplace", false } })

function Dropout:init(...)
  local p, inplace = self.signature:values(...)
  self.p = p
  self.inplace = inplace
end

function Dropout:forward(x)
  local y = x:dropout(self.p, self.training)
  return self.inplace and y ~= x and x:copy_(y) or y
end

function Dropout:extra_repr() return ("p=%.14g%s"):format(self.p, self.inplace and ", inplace=true" or "") end

return { Dropout = Dropout }
