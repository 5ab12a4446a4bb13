package org.example.river;

import java.util.ArrayList;
import java.util.List;

public class Gauge {
    private final List<Double> levels = new ArrayList<>();

    public void record(double level) {
        if (Double.isNaN(level)) {
            throw new IllegalArgumentException("no level");
        }
        levels.add(level);
    }

    public double mean() {
        return levels.stream().mapToDouble(Double::doubleValue).average().orElse(0.0);
    }

    public static void main(String[] args) {
        Gauge gauge = new Gauge();
        gauge.record(1.25);
        System.out.println(gauge.mean());
    }
}
