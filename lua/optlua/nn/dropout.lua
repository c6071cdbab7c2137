--- dropout: random zeros while training.
local module = require "optlua.nn.module"
local signature = require "optlua.signature"

--- Sets each element to 0 with probability p and scales the others by 1/(1-p), while training
--- (Srivastava et al., 2014).
---@class nn.Dropout: nn.Module
local Dropout = module.class "Dropout"

Dropout.signature = signature.new("nn.Dropout", { { "p", { default = 0.5, min = 0, max = 1 } } })

function Dropout:init(...) self.p = self.signature:values(...) end

function Dropout:forward(x) return x:dropout(self.p, self.training) end

function Dropout:extra_repr() return ("p=%.14g"):format(self.p) end

return { Dropout = Dropout }
