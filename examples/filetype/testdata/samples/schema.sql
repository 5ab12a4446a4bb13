CREATE TABLE reading (
  id INTEGER PRIMARY KEY,
  station TEXT NOT NULL,
  level REAL,
  taken TIMESTAMP DEFAULT CURRENT_TIMESTAMP
);

CREATE INDEX by_station ON reading (station, taken);

INSERT INTO reading (station, level) VALUES ('upper weir', 1.25), ('mill', 0.8);

SELECT station, avg(level) AS mean, count(*)
FROM reading
WHERE level IS NOT NULL
GROUP BY station
HAVING count(*) > 1
ORDER BY mean DESC
LIMIT 10;
