// What `dynamask_mlflow/report/payload.py` writes into the page.

export type Kind = "number" | "share" | "flag";
export type Num = number | null;

export interface Words {
  name: string;
  label: string;
  help: string;
  symbol: string;
  kind: Kind;
  better: "higher" | "lower" | "";
}

export interface Metric extends Words {
  values: (Num | boolean)[];
}

export interface Summary extends Words {
  value: Num;
  random?: Num;
}

export interface CurveLine extends Words {
  values: Num[] | null;
  random: Num[] | null;
  low: Num[] | null;
  high: Num[] | null;
}

// What raised and lowered each answer; the cells themselves are bytes.
export interface Explained {
  answer: Num[];
  reference: Num[];
  sizes: number[];
  spreads: number[] | null; // the largest error bar of each instance
  logit: boolean;
  unit: string;
  target: string;
  against: string; // what the reference answer is an answer to, "with every channel held level"
  level: boolean; // whether that is the sequence itself, held level
}

export interface TargetView {
  label: string;
  explained: Explained | null;
  predictions: Num[] | null;
  leading: number[];
}

export interface Paired {
  shift: Num;
  low: Num;
  high: Num;
  instances: number;
  controls: Record<string, [Num, Num]>;
}

export interface Curves {
  areas: number[];
  lines: CurveLine[];
}

// What the model said about each instance: `series` (N, T) where it answers at every step.
export interface Outputs {
  kind: "text" | "probability" | "classes" | "value";
  text: string[];
  value: Num[] | null;
  classes: Num[][] | null;
  series: Num[][] | null;
}

export interface Method {
  method: string;
  metrics: Record<string, Num>;
  words: Record<string, Words>;
  curves: Curves | null;
}

export interface Drift extends Pair {
  verdict: string;
  explained: number | null;
  states: Record<string, [string, string]>;
  told: [string, string[]][];
  tests: Record<string, string | number>;
  causes: Record<string, string | number>;
  history: { labels: string[]; verdicts: string[]; lines: Record<string, Num[]> };
  thresholds: Record<string, number>;
}

// Two windows, or two models, side by side.
export interface Pair {
  labels: [string, string];
  byChannel: [number[], number[]];
  byTime: [number[], number[]];
  maps: [number[][], number[][]] | null;
  movedChannels: number[];
  movedTimes: number[];
}

export interface Compared extends Pair {
  rows: Record<string, number>;
}

export interface Course {
  steps: number[];
  answers: Num[][];
  elapsed: Num[][];
  sizes: number[];
  unit: string;
  since: number[] | null; // (N,) steps known at the times that were asked for
  until: number[] | null;
}

export interface Report {
  title: string;
  model: string;
  created: string;
  task: "classification" | "regression";
  method: string;
  unit: string;
  shape: [number, number, number];
  ids: string[];
  channels: string[]; // as a reader knows them
  names: string[]; // as the data have them
  units: string[] | null;
  times: string[];
  classes: string[] | null;
  perStep: boolean;
  headline: string[];
  summary: Summary[];
  metrics: Metric[];
  before: Outputs | null;
  after: Outputs | null;
  target: Outputs | null;
  lengths: number[] | null;
  leading: number[];
  profile: { byChannel: number[]; byTime: number[]; map: number[][] };
  curves: Curves | null;
  errors: Num[][] | null;
  comparison: Method[];
  explained: Explained | null;
  views: TargetView[];
  population: Num;
  threshold: Num;
  paired: Record<string, Paired>;
  groups: Record<string, string | Num>[];
  calibration: Record<string, Num>[];
  settings: Record<string, string | number>;
  notes: string[];
  warnings: string[];
  drift: Drift | null;
  compared: Compared | null;
  course: Course | null;
  ranges?: [number[], number[]];
}
