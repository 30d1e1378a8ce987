export type Action =
  | "accept" | "tag" | "quarantine" | "reject" | "throttle" | "shadow" | "challenge" | "review_before" | "review_after";

export type Event = Record<string, unknown>;

export interface Options {
  token?: string;
  /** The pipeline that decides; the node's first if there is none. */
  pipeline?: string;
  /** Milliseconds for a whole call with all its tries; of a batch for each part. Default 1000. */
  timeout?: number;
  /** The decision where the node makes none. Default "allow". */
  onError?: "allow" | "deny" | "raise";
  /** Tries after the first. Default 2. */
  retries?: number;
  /** Most lines, and bytes, of a batch's part. Default 1000, and 4 MiB. */
  batch?: number;
  batchBytes?: number;
  /** Most characters of an answer. Default 64 Mi. */
  answerMax?: number;
  /** The member that names an event, filled in by chance where it is missing; null to leave it. Default "id". */
  idField?: string | null;
  log?: (text: string) => void;
  fetch?: typeof fetch;
}

export interface Reason {
  name: string;
  score: number;
  detail: string;
  values: Record<string, unknown>;
}

export interface Pass {
  token: string;
  seconds: number;
}

/** The decision about an event; all members of the node's answer are there. */
export interface Decision {
  action: Action;
  id?: string;
  event_id?: string;
  score?: number;
  probability?: number;
  duplicate?: boolean;
  reasons: Reason[];
  challenge?: Record<string, unknown>;
  pass?: Pass;
  /** Says why the node did not decide. */
  error?: string;
  warnings?: string[];
  [member: string]: unknown;
}

export interface Label {
  id: string;
  class: string;
  by?: string;
}

export interface FeedbackOutcome {
  id: string;
  class: string;
  keys: number;
  duplicate: boolean;
  weight: number;
  limited: boolean;
  standing: string;
  replaced?: string;
}

export interface LineError {
  line: number;
  error: { status: number; detail: string; [member: string]: unknown };
}

export interface ChallengeOutcome {
  solved: boolean;
  refused?: string;
  pass?: Pass;
}

export class TollhouseError extends Error {
  readonly status: number;
  readonly problem?: Record<string, unknown>;
  get isCallers(): boolean;
}

export class Tollhouse {
  constructor(url: string, options?: Options);
  decide(event: Event): Promise<Decision>;
  decideMany(events: Iterable<Event>): Promise<Decision[]>;
  feedback(labels: Iterable<Label>): Promise<(FeedbackOutcome | LineError)[]>;
  challenge(event: Event): Promise<Record<string, unknown>>;
  verify(payload: string, event: Event): Promise<ChallengeOutcome>;
}

export function refusal(decision: Decision): { status: number; body: Record<string, unknown> } | null;

/** Middleware for Express; typed loosely, so that Express's own types need not be there. */
export function express(
  client: Tollhouse,
  event: (request: any) => Event | null | undefined,
): (request: any, response: any, next: (error?: unknown) => void) => Promise<void>;
