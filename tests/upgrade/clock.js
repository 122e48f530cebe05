// Runs inside a Worker, before its own module: its clock is ahead of the machine's by SHIFT_MS, which the bundler puts
// in.
//
// Invariant: only what the Worker sees is shifted. Alarms are kept by the platform in the machine's time, so they ring
// after as long as the Worker asked for. Timers are lengths of time, and stay as they are.

const shift_ms = SHIFT_MS;
const MachineDate = Date;

globalThis.Date = class extends MachineDate {
  constructor(...parts) {
    super(...(parts.length === 0 ? [MachineDate.now() + shift_ms] : parts));
  }

  static now() {
    return MachineDate.now() + shift_ms;
  }
};

const shifted = new WeakSet();

function shiftAlarms(prototype) {
  if (shifted.has(prototype)) return;
  shifted.add(prototype);
  const { getAlarm, setAlarm } = prototype;
  prototype.getAlarm = async function (...options) {
    const at_ms = await getAlarm.apply(this, options);
    return at_ms === null ? null : at_ms + shift_ms;
  };
  prototype.setAlarm = function (at, ...options) {
    return setAlarm.call(this, Number(at) - shift_ms, ...options);
  };
}

/** The class of an object, with alarms by the shifted clock. */
export const clocked = (Sound) =>
  class extends Sound {
    constructor(state, env) {
      shiftAlarms(Object.getPrototypeOf(state.storage));
      super(state, env);
    }
  };
