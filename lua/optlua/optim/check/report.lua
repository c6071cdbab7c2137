--- report: what a conformance test found: a table of lines, each of which holds, does not apply, or fails.
---@class optlua.optim.Line
---@field key string a word: "quadratic", "threads" …
---@field title string
---@field result string "holds", "does not apply" or "FAILS"
---@field detail string? what was measured, why it does not apply, or how it fails

---@class optlua.optim.Report
---@field name string of the class
---@field ok boolean whether nothing fails
---@field lines optlua.optim.Line[]
---@field [string] optlua.optim.Line a line by its key
local Report = { __name = "optimizer report" }

function Report:__index(key)
  for _, line in ipairs(rawget(self, "lines")) do
    if line.key == key then return line end
  end
end

local words = { holds = "%d hold", ["does not apply"] = "%d do not apply", FAILS = "%d FAIL" }

-- How many lines have each result, in words; what no line has is left out.
local function summary(self)
  local counts, parts = {}, {}
  for _, line in ipairs(self.lines) do counts[line.result] = (counts[line.result] or 0) + 1 end
  for _, result in ipairs { "holds", "does not apply", "FAILS" } do
    if counts[result] then parts[#parts + 1] = words[result]:format(counts[result]) end
  end
  return table.concat(parts, ", ")
end

-- How a line fails, without the parameter and the rate that it did with.
local function mistake_of(line)
  local text = line.detail:gsub(", with lr = [^\n]*; smaller ones [^\n]*$", "")
  return text:match "^(.*) %(.-, group '" or text
end

-- The mistakes that more than one line fails by, { mistake, titles } each; and these lines.
local function shared(self)
  local list, by_mistake, lines = {}, {}, {}
  for _, line in ipairs(self.lines) do
    local mistake = line.result == "FAILS" and mistake_of(line)
    if mistake then
      local entry = by_mistake[mistake] or { mistake = mistake, lines = {}, titles = {} }
      by_mistake[mistake] = entry
      entry.lines[#entry.lines + 1], entry.titles[#entry.titles + 1] = line, line.title
      if #entry.lines == 2 then list[#list + 1] = entry end
    end
  end
  for _, entry in ipairs(list) do
    for _, line in ipairs(entry.lines) do lines[line] = true end
  end
  return list, lines
end

local function one_line(text) return (text:gsub("%s+$", ""):gsub("%s*\n%s*", "; ")) end

--- A report is printed as a table, a line each; a mistake that makes several lines fail is said once, above.
function Report:__tostring()
  local width, rows, mistakes, said = 0, { ("%s: %s"):format(self.name, summary(self)) }, shared(self)
  for _, entry in ipairs(mistakes) do
    rows[#rows + 1] = "  " .. one_line(entry.mistake)
    rows[#rows + 1] = ("    stops %d checks: %s"):format(#entry.titles, table.concat(entry.titles, ", "))
  end
  for _, line in ipairs(self.lines) do width = said[line] and width or math.max(width, #line.title) end
  for _, line in ipairs(self.lines) do
    local row = ("  %-" .. width .. "s  %-14s  %s"):format(line.title, line.result, line.detail or "")
    if not said[line] then rows[#rows + 1] = one_line(row) end
  end
  return table.concat(rows, "\n")
end

-- What a check gives: nothing or a detail where it holds, false and why where it does not apply, an error where it fails.
local function line_of(check, ok, result, why)
  local line = { key = check.key, title = check.title, result = "holds", detail = result or nil }
  if not ok then
    line.result, line.detail = "FAILS", tostring(result)
  elseif result == false then
    line.result, line.detail = "does not apply", why
  end
  return line
end

--- Runs checks on a subject, each whatever became of the others.
---@param name string
---@param checks { key: string, title: string, run: fun(subject: any): any, string? }[]
---@param subject any
---@return optlua.optim.Report
local function make(name, checks, subject)
  local lines, ok = {}, true
  for k, check in ipairs(checks) do
    lines[k] = line_of(check, pcall(check.run, subject))
    ok = ok and lines[k].result ~= "FAILS"
  end
  return setmetatable({ name = name, ok = ok, lines = lines }, Report)
end

return make
