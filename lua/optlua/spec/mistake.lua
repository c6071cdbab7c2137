--- mistake: how an error ends a run on the command line. What the library says of a mistake is one line; an error in a function
--- of the script comes with the traceback of the script's, one in the library itself with the whole.

local library = debug.getinfo(1, "S").source:match "^@?(.*)spec/mistake%.lua$"

local mistake = {}

-- An error that describes itself is printed as it is.
local Message = { __tostring = function(self) return self.text end }

-- Whether it was the library that raised what a handler, two levels below here, is called for: not by a fault of its own code.
local function is_said_by_library()
  local level = 3
  local info = debug.getinfo(level, "S")
  if not info or info.what ~= "C" then return false end
  while info and info.what == "C" do
    level = level + 1
    info = debug.getinfo(level, "S")
  end
  return info ~= nil and info.source:sub(2, #library + 1) == library
end

-- A message without the place in the library where it was raised.
local function without_place(text)
  if text:sub(1, #library) == library then return (text:gsub("^[^\n]-:%d+: ", "", 1)) end
  return text
end

-- A traceback of the script's own functions: lines of the library, and what is below the last of the script, are left out.
local function of_script(trace)
  local kept, last = {}, 0
  for line in trace:gmatch "[^\n]+" do
    if line:sub(1, #library + 1) ~= "\t" .. library then
      kept[#kept + 1] = line
      if not line:find "^\t%[C%]" then last = #kept end
    end
  end
  return table.concat(kept, "\n", 1, last)
end

local function describe(problem)
  local text = tostring(problem)
  if text:find "interrupted!$" or is_said_by_library() then
    text = without_place(text)
  else
    local trace = debug.traceback("", 2)
    text = text .. "\n" .. (text:sub(1, #library) == library and trace:sub(2) or of_script(trace))
  end
  return setmetatable({ text = text }, Message)
end

--- Calls a function, whose errors are raised again as they are to be printed.
---@param fn function
function mistake.guard(fn, ...)
  local ok, problem = xpcall(fn, describe, ...)
  if not ok then error(problem, 0) end
end

return mistake
