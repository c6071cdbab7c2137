-- layers: proves that each file of runtime/FLOOR includes only its own floor and lower ones, and that
-- few files see what few should see. Prints what each floor includes; fails on a violation.
--   lua5.4 scripts/dev/layers.lua

local FLOORS = { "base", "tensor", "autograd", "ops", "rule", "optim", "io", "bind", "main" }

-- Lower floors that a floor does without all the same.
local APART = { optim = { autograd = true, ops = true }, rule = { autograd = true, ops = true } }

-- Headers that only these files or floors may see.
local RESERVED = {
  { headers = "^l?ua[uxlibconf]*%.h", seen_by = { "^bind/", "^main/" } },
  { headers = "^cblas", seen_by = { "^tensor/blas%.c$" } },
  { headers = "^omp%.h", seen_by = { "^base/parallel%.c$" } },
}

local height = {}
for i, floor in ipairs(FLOORS) do height[floor] = i end

local function sources()
  local pipe = assert(io.popen("find runtime -name '*.[ch]' | sort"))
  local paths = {}
  for path in pipe:lines() do table.insert(paths, (path:gsub("^runtime/", ""))) end
  pipe:close()
  return paths
end

-- Calls visit(line number, header, whether it is ours) for each #include of a file.
local function includes(path, visit)
  local number = 0
  for line in io.lines("runtime/" .. path) do
    number = number + 1
    local quote, header = line:match('^%s*#%s*include%s*(["<])([^">]+)[">]')
    if header then visit(number, header, quote == '"') end
  end
end

local function allowed(path, patterns)
  for _, pattern in ipairs(patterns) do
    if path:find(pattern) then return true end
  end
  return false
end

-- What is wrong with an include, or nil.
local function complaint(path, floor, header, ours)
  for _, reserved in ipairs(RESERVED) do
    if header:find(reserved.headers) and not allowed(path, reserved.seen_by) then
      return "is not for this file"
    end
  end
  local other = header:match("^(%w+)/")
  if not height[other] then return ours and "names no floor" or nil end
  if height[other] > height[floor] then return ("is above %s/"):format(floor) end
  if APART[floor] and APART[floor][other] then return ("is not for %s/"):format(floor) end
end

local files, seen, wrong = {}, {}, 0
for _, path in ipairs(sources()) do
  local floor = path:match("^(%w+)/")
  if not height[floor] then
    wrong = wrong + 1
    print(("runtime/%s: stands on no floor"):format(path))
  else
    files[floor] = (files[floor] or 0) + 1
    seen[floor] = seen[floor] or {}
    includes(path, function(number, header, ours)
      local other = header:match("^(%w+)/")
      if height[other] and other ~= floor then seen[floor][other] = true end
      local what = complaint(path, floor, header, ours)
      if not what then return end
      wrong = wrong + 1
      print(("runtime/%s:%d: %s %s"):format(path, number, header, what))
    end)
  end
end

print(("%-10s %5s  %s"):format("floor", "files", "includes"))
for _, floor in ipairs(FLOORS) do
  local below = {}
  for _, other in ipairs(FLOORS) do
    if seen[floor] and seen[floor][other] then table.insert(below, other) end
  end
  print(("%-10s %5d  %s"):format(floor, files[floor] or 0, table.concat(below, " ")))
end
if wrong > 0 then print(("%d violations"):format(wrong)) end
os.exit(wrong == 0)
