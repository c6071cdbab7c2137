--- text: files of text as windows of numbers.
local host = require("optlua.core").hidden
local optlua = require "optlua"
local blame = require "optlua.blame"
local options = require "optlua.options"
local vocabularies = require "optlua.data.vocabulary"
local windows = require "optlua.data.windows"

local LICENCES = "/usr/share/common-licenses"

--- The texts that every Debian machine has: the paths of its licences, sorted.
---@return string[]
local function system_texts()
  local paths = {}
  for _, entry in ipairs(host.folder_list(LICENCES)) do
    if entry.is_file and not entry.is_link then paths[#paths + 1] = LICENCES .. "/" .. entry.name end
  end
  if #paths == 0 then
    blame(("data.system_texts: there are no texts in %s; give a file of your own"):format(LICENCES))
  end
  return paths
end

--- The units of all files, one after the other.
local function read(paths, bytes)
  local parts = {}
  for k, path in ipairs(paths) do parts[k] = host.file_units(path, bytes) end
  return optlua.cat(parts)
end

--- A dataset of windows of tokens that are in memory.
local function dataset_of(tokens, vocabulary, context, stride)
  local set = windows.dataset(#tokens, { context = context, stride = stride }, function(starts, length)
    local places = starts:unsqueeze(2) + optlua.arange(0, length) -- (B,T)
    return tokens:index_select(1, places:reshape(-1)):to "int64":reshape(-1, length)
  end)
  set.tokens, set.vocabulary = tokens, vocabulary
  return set
end

local function check_length(what, n, context)
  if n > context then return end
  blame(("data.text: the text for %s has %d characters; with a context of %d it needs at least %d")
    :format(what, n, context, context + 1))
end

local schema = {
  context = { required = true, type = "integer", min = 1, max = 1 << 53 },
  validation = { default = 0.1, min = 0, below = 1 },
  level = { default = "char", choices = { "char", "byte" } },
  stride = { default = 1, min = 1, integer = true },
  unknown = { required = false, type = "string" },
  vocabulary = { required = false, type = "table" },
}

--- Datasets of a text for a model that predicts the next character. An item is a window of `context`
--- characters, int64 (context), and the same one character later, its targets. The files are taken one after the
--- other; the last part of them all is for validation. A loader with shuffle = true goes through training
--- windows at random, from its seed. Both datasets have fields `vocabulary` and `tokens`.
---@param paths string|string[] files, gzipped or plain
---@param opts { context: integer, validation?: number, level?: "char"|"byte", stride?: integer, unknown?: string, vocabulary?: data.Vocabulary }
---  validation: its part of the text, 0.1; 0: none; level: "char", UTF-8 code points, or "byte"; stride: characters
---  from the begin of one training window to that of the next, 1 (validation windows do not overlap);
---  unknown: see data.vocabulary; vocabulary: default that of the whole text
---@return data.Dataset train
---@return data.Dataset? validation
local function text(paths, opts)
  opts = options.check("data.text", opts, schema)
  if type(paths) == "string" then paths = { paths } end
  options.argument("data.text", "paths", paths, { required = true, type = "list" })
  for k, path in ipairs(paths) do
    options.argument("data.text", ("paths[%d]"):format(k), path, { required = true, type = "string" })
  end
  if #paths == 0 then blame "data.text: paths: at least one file expected" end
  if opts.vocabulary and not vocabularies.is_vocabulary(opts.vocabulary) then
    blame "data.text: vocabulary: one of data.vocabulary expected"
  end
  local level = opts.vocabulary and opts.vocabulary.level or opts.level
  local codes = read(paths, level == "byte")
  local vocabulary = opts.vocabulary or vocabularies.build("data.text", codes, opts)
  local tokens = vocabulary:look_up("data.text", codes)
  if #vocabulary <= 256 then tokens = tokens:to "uint8" end -- kept small
  local rest = math.floor(#tokens * opts.validation)
  local train = tokens:narrow(1, 1, #tokens - rest)
  check_length("training", #train, opts.context)
  local set = dataset_of(train, vocabulary, opts.context, opts.stride)
  if opts.validation == 0 then return set end
  check_length("validation", rest, opts.context)
  return set, dataset_of(tokens:narrow(1, #train + 1, rest), vocabulary, opts.context, opts.context)
end

return { text = text, system_texts = system_texts }
