local Gauge = {}
Gauge.__index = Gauge

function Gauge.new(name)
  return setmetatable({ name = name, levels = {} }, Gauge)
end

function Gauge:record(level)
  if level == nil then
    error("no level", 2)
  end
  self.levels[#self.levels + 1] = level
end

local g = Gauge.new("mill")
g:record(1.25)
print(g.name, #g.levels)
return Gauge
