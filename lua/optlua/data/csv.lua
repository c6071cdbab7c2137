--- csv: tables in text files, as columns of numbers and as datasets.
--
-- libcsv parses (RFC 4180, strictly); what cells mean is decided here.
local host = require("optlua.core").hidden
local optlua = require "optlua"
local blame = require "optlua.blame"
local options = require "optlua.options"
local dataset = require "optlua.data.dataset"

local WHAT = "data.csv"
local KINDS = { "integer", "float", "category", "string" }
local MARKS = { "", "NA", "NaN", "nan", "null" } -- in columns of numbers; in others only ""

--- A table that is being read.
---@class data.csv.Table
---@field path string
---@field cells userdata
---@field first integer the first row that is no header
---@field rows integer rows without the header
---@field names string[]
---@field index table<string, integer> the column of each name

local function place(self, row, column)
  return ("%s:%d:%d"):format(self.path, host.csv_place(self.cells, self.first + row - 1, column))
end

local function cell(self, row, column) return host.csv_text(self.cells, self.first + row - 1, column) end

--- The names of columns: those of the header, those that are given, or their numbers.
local function names_of(path, cells, rows, columns, header)
  local names = {}
  if type(header) == "table" then
    if #header ~= columns and rows > 0 then
      blame(("%s: %s: header has %d names, the file has %d columns"):format(WHAT, path, #header, columns))
    end
    return header
  end
  if header and rows == 0 then blame(("%s: %s: there is no line with a header"):format(WHAT, path)) end
  for k = 1, columns do names[k] = header and host.csv_text(cells, 1, k) or tostring(k) end
  return names
end

local function index_of(path, names)
  local index = {}
  for k, name in ipairs(names) do
    if type(name) ~= "string" or index[name] then
      blame(("%s: %s: header: column %d: a name of its own expected, got %q"):format(WHAT, path, k, name))
    end
    index[name] = k
  end
  return index
end

local function open(path, opts)
  local cells, rows, columns = host.csv_read(path, opts.delimiter, opts.quote)
  local names = names_of(path, cells, rows, columns, opts.header)
  local first = opts.header == true and 2 or 1
  return {
    path = path, cells = cells, first = first, rows = math.max(rows - first + 1, 0), names = names,
    index = index_of(path, names),
  }
end

--- The name of a column that an option names, by name or number.
local function column_name(self, option, value)
  local name = math.type(value) == "integer" and self.names[value] or value
  if type(name) ~= "string" or not self.index[name] then
    local problem = options.unknown("column", value, self.names)
    blame(("%s: %s: %s"):format(WHAT, option, problem))
  end
  return name
end

-- Kinds ------------------------------------------------------------------------------------------------

local function check_kind(name, kind)
  if type(kind) == "table" then
    options.argument(WHAT, ("types.%s"):format(name), kind, { required = true, type = "list" })
    for _, text in ipairs(kind) do
      if type(text) ~= "string" then blame(("%s: types.%s: a list of texts expected"):format(WHAT, name)) end
    end
    return kind
  end
  for _, legal in ipairs(KINDS) do
    if kind == legal then return kind end
  end
  blame(("%s: types.%s: %s, or a list of categories"):format(WHAT, name, options.unknown("type", kind, KINDS)))
end

--- The kinds that were declared, by name of column.
local function declared_kinds(self, types)
  local kinds = {}
  if type(types) == "string" then
    for _, name in ipairs(self.names) do kinds[name] = check_kind(name, types) end
  else
    for key, kind in pairs(types or {}) do
      local name = column_name(self, "types", key)
      kinds[name] = check_kind(name, kind)
    end
  end
  return kinds
end

--- The kind of a column that was not declared: numbers, or "text", which is none that may stay.
local function found_kind(self, name)
  return host.csv_kind(self.cells, self.first, self.index[name], self.marks or MARKS)
end

--- What is wrong with a column of undeclared text, naming the cell that is no number.
local function text_problem(self, name)
  local ok, message = pcall(host.csv_numbers, self.cells, self.first, self.index[name], self.marks or MARKS, false)
  if ok then
    return ('%s: column "%s": a whole number has more digits than numbers keep; say what it is: types = { ["%s"] = "float" }, '
      .. '"category" or "string"'):format(WHAT, name, name)
  end
  message = message:sub(message:find(self.path, 1, true) or 1) -- without the line of the script, which comes first
  return ('%s: column "%s": %s; say what it is: types = { ["%s"] = "category" } or "string"'):format(WHAT, name, message, name)
end

--- The kind of each column; raises for all that are text and were not declared.
local function kinds_of(self, opts)
  local kinds, problems = declared_kinds(self, opts.types), {}
  for _, name in ipairs(self.names) do
    kinds[name] = kinds[name] or found_kind(self, name)
    if kinds[name] == "text" then problems[#problems + 1] = text_problem(self, name) end
  end
  if #problems > 0 then blame(table.concat(problems, "\n")) end
  return kinds
end

-- Missing values -----------------------------------------------------------------------------------------

local function is_text(kind) return kind == "string" or kind == "category" or type(kind) == "table" end

--- What is to be done where a value of a column is missing.
local function policy_of(self, name, kind, missing)
  local policy = missing
  if type(missing) == "table" then policy = missing[name] == nil and "error" or missing[name] end
  if is_text(kind) then
    if policy == "nan" or type(policy) ~= "string" then
      policy = type(missing) == "table" and policy or "error" -- what is meant for numbers
    end
  end
  local fits = policy == "error" or policy == "drop"
    or (is_text(kind) and type(policy) == "string" and policy ~= "nan")
    or (not is_text(kind) and (policy == "nan" or type(policy) == "number"))
  if not fits then
    local form = type(missing) == "table" and 'column "%s" of type %s' or 'of columns such as "%s", of type %s'
    blame(('%s: missing: %s: "error", "drop"%s expected, got %s'):format(WHAT,
      form:format(name, type(kind) == "table" and "category" or kind), is_text(kind) and " or a text" or ', "nan" or a number', tostring(policy)))
  end
  if kind == "integer" and type(policy) == "number" and not math.tointeger(policy) then
    blame(('%s: missing: column "%s" of type integer: an integer expected, got %s'):format(WHAT, name, policy))
  end
  return policy
end

--- Raises at the first value that is missing.
local function refuse_missing(self, name, mask)
  local row = mask:nonzero()[1]:item() + 1
  blame(('%s: column "%s": a value is missing; missing = "drop", "nan" or a value says what to do')
    :format(place(self, row, self.index[name]), name))
end

-- Columns ------------------------------------------------------------------------------------------------

local function read_numbers(self, name, kind, policy, mask, dtype)
  local numbers = host.csv_numbers(self.cells, self.first, self.index[name], self.marks or MARKS, kind == "integer")
  if kind == "float" or policy == "nan" then numbers = numbers:to(dtype) end
  if mask and (policy == "nan" or type(policy) == "number") then
    numbers = numbers:masked_fill(mask, policy == "nan" and 0 / 0 or policy)
  end
  return numbers
end

--- The texts of a column; what is missing is `fill`.
local function read_texts(self, name, mask, fill)
  local texts, missing, column = {}, mask and mask:totable(), self.index[name]
  for row = 1, self.rows do
    texts[row] = missing and missing[row] ~= 0 and fill or cell(self, row, column)
  end
  return texts
end

--- The different texts, sorted; those of rows to be dropped are not among them.
local function categories_of(texts, dropped)
  local seen, list = {}, {}
  for row, text in ipairs(texts) do
    if not seen[text] and not (dropped and dropped[row] ~= 0) then
      seen[text] = true
      list[#list + 1] = text
    end
  end
  table.sort(list)
  return list
end

--- Numbers of categories, from 0.
local function read_categories(self, name, texts, categories, dropped)
  local number, codes = {}, {}
  for k, text in ipairs(categories) do number[text] = k - 1 end
  for row, text in ipairs(texts) do
    codes[row] = number[text] or (dropped and dropped[row] ~= 0 and 0)
    if not codes[row] then
      blame(('%s: column "%s": "%s" is none of its categories: %s'):format(place(self, row, self.index[name]), name,
        text, table.concat(categories, ", ")))
    end
  end
  return optlua.tensor(codes, { dtype = "int64" })
end

--- Decides on kinds and on what is missing; `dropped` is a mask of the rows that go.
local function plan(self, opts)
  local kinds, policies, masks, dropped = kinds_of(self, opts), {}, {}, nil
  for _, name in ipairs(self.names) do
    local kind = kinds[name]
    policies[name] = policy_of(self, name, kind, opts.missing)
    local marks = self.marks or (is_text(kind) and { "" }) or MARKS
    local mask = host.csv_missing(self.cells, self.first, self.index[name], marks, is_text(kind))
    if self.rows > 0 and mask:any():item() ~= 0 then
      if policies[name] == "error" then refuse_missing(self, name, mask) end
      masks[name] = mask
      if policies[name] == "drop" then dropped = dropped and dropped:logical_or(mask) or mask end
    end
  end
  return kinds, policies, masks, dropped
end

--- Keeps the rows of a column, a tensor or a list, at these positions from 0.
local function keep(column, kept)
  if not kept then return column end
  if optlua.is_tensor(column) then return column:index_select(1, kept) end
  local list = {}
  for k, position in ipairs(kept:totable()) do list[k] = column[position + 1] end
  return list
end

local function read_columns(self, opts)
  local kinds, policies, masks, dropped = plan(self, opts)
  local gone = dropped and dropped:totable()
  local kept = dropped and dropped:eq(0):nonzero():reshape(-1)
  local columns, categories = {}, {}
  for _, name in ipairs(self.names) do
    local kind, policy, mask = kinds[name], policies[name], masks[name]
    local column
    if is_text(kind) then
      column = read_texts(self, name, mask, policy)
      if kind ~= "string" then
        categories[name] = type(kind) == "table" and kind or categories_of(column, gone)
        column = read_categories(self, name, column, categories[name], gone)
      end
    else
      column = read_numbers(self, name, kind, policy, mask, opts.dtype)
    end
    columns[name] = keep(column, kept)
  end
  return columns, categories, kinds
end

-- Datasets -----------------------------------------------------------------------------------------------

--- A list of the names that an option gives: one, or several.
local function names_in(self, option, value)
  if value == nil then return {} end
  local list = {}
  for k, one in ipairs(type(value) == "table" and value or { value }) do list[k] = column_name(self, option, one) end
  return list
end

--- The features: those that were chosen, else all columns but targets and texts.
local function features_of(self, opts, targets, columns)
  if opts.features then return names_in(self, "features", opts.features) end
  local is_target, list = {}, {}
  for _, name in ipairs(targets) do is_target[name] = true end
  for _, name in ipairs(self.names) do
    if not is_target[name] and optlua.is_tensor(columns[name]) then list[#list + 1] = name end
  end
  return list
end

--- Columns side by side: (rows, columns), of a dtype.
local function join(names, columns, dtype, option)
  local list = {}
  for k, name in ipairs(names) do
    if not optlua.is_tensor(columns[name]) then
      blame(('%s: %s: column "%s" is text; types = { ["%s"] = "category" } makes numbers of it'):format(WHAT, option, name, name))
    end
    list[k] = columns[name]:to(dtype)
  end
  return optlua.stack(list, 2)
end

--- The targets: those of one column as they are, those of a list side by side: (rows, columns).
local function targets_of(names, columns, opts)
  local joined = join(names, columns, opts.dtype, "target")
  return type(opts.target) ~= "table" and columns[names[1]] or joined
end

local schema = {
  header = { default = true, type = "boolean|list" },
  types = { required = false, type = "table|string" },
  missing = { default = "error", type = "string|number|table" },
  na_values = { required = false, type = "list" },
  delimiter = ",",
  quote = '"',
  target = { required = false, type = "string|integer|list" },
  features = { required = false, type = "list" },
  dtype = { default = "float32", choices = { "float32", "float64" } },
}

local function check(opts)
  if type(opts) == "table" and opts.sep ~= nil then blame(WHAT .. ": sep: this option is called delimiter") end
  opts = options.check(WHAT, opts, schema)
  for _, name in ipairs { "delimiter", "quote" } do
    if #opts[name] ~= 1 or opts[name]:find "[\r\n]" then blame(("%s: %s: one byte expected, got %q"):format(WHAT, name, opts[name])) end
  end
  if opts.delimiter == opts.quote then blame(WHAT .. ": delimiter and quote are the same") end
  for _, text in ipairs(opts.na_values or {}) do
    if type(text) ~= "string" then blame(WHAT .. ": na_values: a list of texts expected") end
  end
  return opts
end

--- A dataset of the rows of a CSV file, gzipped or plain. An item is the features, float32 (columns), and where
--- `target` names a column its value: int64 of integers and categories, else float32. A list of targets, also of one,
--- comes side by side, float32 (columns): so { "price" } goes with the (B, 1) of nn.Linear(…, 1). The dataset has fields `columns` (by name: a tensor, or a list of texts), `names`, `features`,
--- `types` and `categories` (by name: a list of texts; what the numbers 0, 1 … stand for).
---
--- A column is "integer", "float", "category" (numbers for its texts, sorted) or "string" (in `columns` only). Numbers
--- are recognised; texts must be declared, so that a slip in a number is not taken for one, and so must columns with
--- whole numbers of more digits than int64, or float64 where there are fractions, keeps. Errors say file, line and
--- column.
---@param path string
---@param opts? { header?: boolean|string[], types?: string|table<string|integer, string|string[]>, missing?: any, na_values?: string[], delimiter?: string, quote?: string, target?: string|integer|string[], features?: string[], dtype?: "float32"|"float64" }
---  header: true: the first line has names; false: columns are called "1", "2" …; or a list of names;
---  types: by name or number of column, or one for all; a list of texts is a category with these numbers;
---  missing: "error", "nan" (of numbers), "drop" (the row goes) or a value; or such by name of column;
---  na_values: texts for missing values, default "", and of numbers "NA", "NaN", "nan", "null" too;
---  delimiter: ","; quote: '"'; target: columns by name or number; features: default all others that are numbers
---@return data.Dataset
local function csv(path, opts)
  options.argument(WHAT, "path", path, { required = true, type = "string" })
  opts = check(opts)
  local self = open(path, opts)
  self.marks = opts.na_values
  if type(opts.missing) == "table" then
    for name in pairs(opts.missing) do column_name(self, "missing", name) end
  end
  local targets = names_in(self, "target", opts.target)
  names_in(self, "features", opts.features)
  local columns, categories, kinds = read_columns(self, opts)
  local features = features_of(self, opts, targets, columns)
  if #features == 0 then blame(("%s: %s: no column is left for the features"):format(WHAT, path)) end
  local x = join(features, columns, opts.dtype, "features")
  local set = #targets == 0 and dataset.tensors(x) or dataset.tensors(x, targets_of(targets, columns, opts))
  set.columns, set.names, set.features, set.categories = columns, self.names, features, categories
  set.types = kinds
  for name, kind in pairs(kinds) do kinds[name] = type(kind) == "table" and "category" or kind end
  return set
end

return { csv = csv }
