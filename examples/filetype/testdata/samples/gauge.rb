# frozen_string_literal: true

require 'json'

module River
  class Gauge
    attr_reader :levels

    def initialize(name)
      @name = name
      @levels = []
    end

    def <<(level)
      raise ArgumentError, 'no level' if level.nil?

      @levels << level
      self
    end

    def mean
      @levels.sum / @levels.size.to_f
    end
  end
end

puts River::Gauge.new('mill').<<(1.5).mean
