--- windows: what a model that predicts the next token learns from: runs of `context` tokens, and the same runs
--- one token later.
local optlua = require "optlua"
local dataset = require "optlua.data.dataset"

local windows = {}

--- How many windows there are in `count` tokens; a window needs one token more than the context.
---@param count integer
---@param context integer
---@param stride integer tokens from the begin of one to that of the next
---@return integer
function windows.count(count, context, stride)
  return count <= context and 0 or (count - context - 1) // stride + 1
end

--- A dataset of windows. `read(starts, length)` gives the tokens, int64 (B, length), from positions that count
--- from 0.
---@param count integer tokens
---@param opts { context: integer, stride: integer }
---@param read fun(starts: optlua.Tensor, length: integer): optlua.Tensor
---@return data.Dataset
function windows.dataset(count, opts, read)
  local context, stride = opts.context, opts.stride
  local function batch(positions)
    local tokens = read(positions * stride, context + 1) -- (B,T+1)
    return tokens:narrow(2, 1, context):contiguous(), tokens:narrow(2, 2, context):contiguous()
  end
  local function get(i)
    local x, y = batch(optlua.tensor({ i - 1 }, "int64"))
    return x[1], y[1]
  end
  local set = dataset.new(windows.count(count, context, stride), get, batch)
  set.context, set.stride = context, stride
  return set
end

return windows
