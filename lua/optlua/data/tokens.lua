--- tokens: files of token ids, as llm.c and nanoGPT write them, as windows.
local host = require("optlua.core").hidden
local blame = require "optlua.blame"
local options = require "optlua.options"
local dataset = require "optlua.data.dataset"
local windows = require "optlua.data.windows"

local schema = {
  context = { required = true, type = "integer", min = 1, max = 1 << 53 },
  stride = { required = false, type = "integer", min = 1 },
  format = { required = false, choices = { "llmc", "nanogpt" } },
  dtype = { required = false, choices = { "uint16", "uint32" } },
}

--- The windows of one file.
local function open(path, opts)
  options.argument("data.tokens", "path", path, { required = true, type = "string" })
  local file, count, format, dtype = host.tokens_open(path, opts.format, opts.dtype)
  if count <= opts.context then
    blame(("data.tokens: %s has %d tokens; a context of %d needs at least %d"):format(path, count, opts.context, opts.context + 1))
  end
  local set = windows.dataset(count, { context = opts.context, stride = opts.stride or opts.context },
    function(starts, length) return host.tokens_read(file, starts, length) end)
  set.count, set.format, set.dtype = count, format, dtype
  return set
end

--- A dataset of a file of token ids for a model that predicts the next one. An item is a window of `context` tokens,
--- int64 (context), and the same one token later, its targets. Only the windows that are asked for are read, so
--- that a file may be larger than memory. Files of llm.c are known by their header (256 int32: magic 20240520,
--- version 1 and ids of 16 bits; magic 20240801, version 7 and 32 bits); any other is taken for nanoGPT's,
--- which has none. The dataset has fields `count` (of tokens), `format` and `dtype`; that of a list of files has not.
---@param path string|string[] several files are taken one after the other; no window reaches into the next
---@param opts { context: integer, stride?: integer, format?: "llmc"|"nanogpt", dtype?: "uint16"|"uint32" }
---  stride: tokens from the begin of one window to that of the next, by default the context: an epoch uses each
---  token once; format: default what the file says; dtype: of nanoGPT's, "uint16"
---@return data.Dataset
local function tokens(path, opts)
  opts = options.check("data.tokens", opts, schema)
  if type(path) ~= "table" then return open(path, opts) end
  local sets = {}
  for k, one in ipairs(path) do sets[k] = open(one, opts) end
  if #sets == 0 then blame "data.tokens: path: at least one file expected" end
  return dataset.concat(sets)
end

return { tokens = tokens }
