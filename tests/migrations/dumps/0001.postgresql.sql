SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;
CREATE TYPE public.studydirection AS ENUM (
    'NOT_SET',
    'MINIMIZE',
    'MAXIMIZE'
);
CREATE TYPE public.trialintermediatevaluetype AS ENUM (
    'FINITE',
    'INF_POS',
    'INF_NEG',
    'NAN'
);
CREATE TYPE public.trialstate AS ENUM (
    'RUNNING',
    'COMPLETE',
    'PRUNED',
    'FAIL',
    'WAITING'
);
CREATE TYPE public.trialvaluetype AS ENUM (
    'FINITE',
    'INF_POS',
    'INF_NEG'
);
SET default_tablespace = '';
SET default_table_access_method = heap;
CREATE TABLE public.alembic_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE public.servetune_alembic_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE public.servetune_attempts (
    id integer NOT NULL,
    trial_id integer NOT NULL,
    ordinal integer NOT NULL,
    purpose character varying(24) NOT NULL,
    round integer,
    workload_seed bigint NOT NULL,
    state character varying(16) NOT NULL,
    outcome character varying(16) NOT NULL,
    host character varying(255),
    guard_pid integer,
    guard_start_ticks bigint,
    engine_pid integer,
    engine_start_ticks bigint,
    port integer,
    directory character varying(255) NOT NULL,
    diagnosis json,
    started_at timestamp with time zone NOT NULL,
    ended_at timestamp with time zone
);
CREATE SEQUENCE public.servetune_attempts_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.servetune_attempts_id_seq OWNED BY public.servetune_attempts.id;
CREATE TABLE public.servetune_events (
    study_id integer NOT NULL,
    seq integer NOT NULL,
    kind character varying(32) NOT NULL,
    trial_number integer,
    payload json NOT NULL,
    at timestamp with time zone NOT NULL
);
CREATE TABLE public.servetune_measurements (
    attempt_id integer NOT NULL,
    document json NOT NULL,
    valid boolean NOT NULL,
    created_at timestamp with time zone NOT NULL
);
CREATE TABLE public.servetune_studies (
    id integer NOT NULL,
    name character varying(100) NOT NULL,
    generation integer NOT NULL,
    digest character varying(64) NOT NULL,
    document json NOT NULL,
    state character varying(16) NOT NULL,
    phase character varying(16) NOT NULL,
    optuna_study_name character varying(200) NOT NULL,
    space json,
    calibration json,
    recommendation json,
    failure json,
    notices json NOT NULL,
    next_event_seq integer NOT NULL,
    created_at timestamp with time zone NOT NULL,
    updated_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone,
    ended_at timestamp with time zone
);
CREATE SEQUENCE public.servetune_studies_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.servetune_studies_id_seq OWNED BY public.servetune_studies.id;
CREATE TABLE public.servetune_trials (
    id integer NOT NULL,
    study_id integer NOT NULL,
    number integer NOT NULL,
    optuna_number integer,
    origin character varying(24) NOT NULL,
    coordinates json,
    config json NOT NULL,
    config_digest character varying(16) NOT NULL,
    state character varying(16) NOT NULL,
    diagnosis json,
    infeasibility json,
    score json,
    prediction json,
    created_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone,
    ended_at timestamp with time zone
);
CREATE SEQUENCE public.servetune_trials_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.servetune_trials_id_seq OWNED BY public.servetune_trials.id;
CREATE TABLE public.studies (
    study_id integer NOT NULL,
    study_name character varying(512) NOT NULL
);
CREATE SEQUENCE public.studies_study_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.studies_study_id_seq OWNED BY public.studies.study_id;
CREATE TABLE public.study_directions (
    study_direction_id integer NOT NULL,
    direction public.studydirection NOT NULL,
    study_id integer NOT NULL,
    objective integer NOT NULL
);
CREATE SEQUENCE public.study_directions_study_direction_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.study_directions_study_direction_id_seq OWNED BY public.study_directions.study_direction_id;
CREATE TABLE public.study_system_attributes (
    study_system_attribute_id integer NOT NULL,
    study_id integer,
    key character varying(512),
    value_json text
);
CREATE SEQUENCE public.study_system_attributes_study_system_attribute_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.study_system_attributes_study_system_attribute_id_seq OWNED BY public.study_system_attributes.study_system_attribute_id;
CREATE TABLE public.study_user_attributes (
    study_user_attribute_id integer NOT NULL,
    study_id integer,
    key character varying(512),
    value_json text
);
CREATE SEQUENCE public.study_user_attributes_study_user_attribute_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.study_user_attributes_study_user_attribute_id_seq OWNED BY public.study_user_attributes.study_user_attribute_id;
CREATE TABLE public.trial_heartbeats (
    trial_heartbeat_id integer NOT NULL,
    trial_id integer NOT NULL,
    heartbeat timestamp without time zone NOT NULL
);
CREATE SEQUENCE public.trial_heartbeats_trial_heartbeat_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.trial_heartbeats_trial_heartbeat_id_seq OWNED BY public.trial_heartbeats.trial_heartbeat_id;
CREATE TABLE public.trial_intermediate_values (
    trial_intermediate_value_id integer NOT NULL,
    trial_id integer NOT NULL,
    step integer NOT NULL,
    intermediate_value double precision,
    intermediate_value_type public.trialintermediatevaluetype NOT NULL
);
CREATE SEQUENCE public.trial_intermediate_values_trial_intermediate_value_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.trial_intermediate_values_trial_intermediate_value_id_seq OWNED BY public.trial_intermediate_values.trial_intermediate_value_id;
CREATE TABLE public.trial_params (
    param_id integer NOT NULL,
    trial_id integer,
    param_name character varying(512),
    param_value double precision,
    distribution_json text
);
CREATE SEQUENCE public.trial_params_param_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.trial_params_param_id_seq OWNED BY public.trial_params.param_id;
CREATE TABLE public.trial_system_attributes (
    trial_system_attribute_id integer NOT NULL,
    trial_id integer,
    key character varying(512),
    value_json text
);
CREATE SEQUENCE public.trial_system_attributes_trial_system_attribute_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.trial_system_attributes_trial_system_attribute_id_seq OWNED BY public.trial_system_attributes.trial_system_attribute_id;
CREATE TABLE public.trial_user_attributes (
    trial_user_attribute_id integer NOT NULL,
    trial_id integer,
    key character varying(512),
    value_json text
);
CREATE SEQUENCE public.trial_user_attributes_trial_user_attribute_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.trial_user_attributes_trial_user_attribute_id_seq OWNED BY public.trial_user_attributes.trial_user_attribute_id;
CREATE TABLE public.trial_values (
    trial_value_id integer NOT NULL,
    trial_id integer NOT NULL,
    objective integer NOT NULL,
    value double precision,
    value_type public.trialvaluetype NOT NULL
);
CREATE SEQUENCE public.trial_values_trial_value_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.trial_values_trial_value_id_seq OWNED BY public.trial_values.trial_value_id;
CREATE TABLE public.trials (
    trial_id integer NOT NULL,
    number integer,
    study_id integer,
    state public.trialstate NOT NULL,
    datetime_start timestamp without time zone,
    datetime_complete timestamp without time zone
);
CREATE SEQUENCE public.trials_trial_id_seq
    AS integer
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.trials_trial_id_seq OWNED BY public.trials.trial_id;
CREATE TABLE public.version_info (
    version_info_id integer NOT NULL,
    schema_version integer,
    library_version character varying(256),
    CONSTRAINT version_info_version_info_id_check CHECK ((version_info_id = 1))
);
ALTER TABLE ONLY public.servetune_attempts ALTER COLUMN id SET DEFAULT nextval('public.servetune_attempts_id_seq'::regclass);
ALTER TABLE ONLY public.servetune_studies ALTER COLUMN id SET DEFAULT nextval('public.servetune_studies_id_seq'::regclass);
ALTER TABLE ONLY public.servetune_trials ALTER COLUMN id SET DEFAULT nextval('public.servetune_trials_id_seq'::regclass);
ALTER TABLE ONLY public.studies ALTER COLUMN study_id SET DEFAULT nextval('public.studies_study_id_seq'::regclass);
ALTER TABLE ONLY public.study_directions ALTER COLUMN study_direction_id SET DEFAULT nextval('public.study_directions_study_direction_id_seq'::regclass);
ALTER TABLE ONLY public.study_system_attributes ALTER COLUMN study_system_attribute_id SET DEFAULT nextval('public.study_system_attributes_study_system_attribute_id_seq'::regclass);
ALTER TABLE ONLY public.study_user_attributes ALTER COLUMN study_user_attribute_id SET DEFAULT nextval('public.study_user_attributes_study_user_attribute_id_seq'::regclass);
ALTER TABLE ONLY public.trial_heartbeats ALTER COLUMN trial_heartbeat_id SET DEFAULT nextval('public.trial_heartbeats_trial_heartbeat_id_seq'::regclass);
ALTER TABLE ONLY public.trial_intermediate_values ALTER COLUMN trial_intermediate_value_id SET DEFAULT nextval('public.trial_intermediate_values_trial_intermediate_value_id_seq'::regclass);
ALTER TABLE ONLY public.trial_params ALTER COLUMN param_id SET DEFAULT nextval('public.trial_params_param_id_seq'::regclass);
ALTER TABLE ONLY public.trial_system_attributes ALTER COLUMN trial_system_attribute_id SET DEFAULT nextval('public.trial_system_attributes_trial_system_attribute_id_seq'::regclass);
ALTER TABLE ONLY public.trial_user_attributes ALTER COLUMN trial_user_attribute_id SET DEFAULT nextval('public.trial_user_attributes_trial_user_attribute_id_seq'::regclass);
ALTER TABLE ONLY public.trial_values ALTER COLUMN trial_value_id SET DEFAULT nextval('public.trial_values_trial_value_id_seq'::regclass);
ALTER TABLE ONLY public.trials ALTER COLUMN trial_id SET DEFAULT nextval('public.trials_trial_id_seq'::regclass);
INSERT INTO public.alembic_version VALUES ('v3.2.0.a');
INSERT INTO public.servetune_alembic_version VALUES ('0001');
INSERT INTO public.servetune_attempts VALUES (8, 2, 3, 'confirmation', 1, 166801239, 'stopping', 'measured', 'host-a', 7152, 1333115, 7152, 1333115, 9, 'study-1/trial-0001/attempt-3', NULL, '2026-11-30 20:15:25.083827+00', '2026-11-30 20:15:25.227338+00');
INSERT INTO public.servetune_attempts VALUES (1, 1, 1, 'search', NULL, 0, 'stopping', 'measured', 'host-a', 7116, 1332733, 7116, 1332733, 9, 'study-1/trial-0000/attempt-1', NULL, '2026-11-30 20:15:21.254019+00', '2026-11-30 20:15:21.536597+00');
INSERT INTO public.servetune_attempts VALUES (2, 2, 1, 'search', NULL, 0, 'stopping', 'measured', 'host-a', 7118, 1332823, 7118, 1332823, 9, 'study-1/trial-0001/attempt-1', NULL, '2026-11-30 20:15:22.151638+00', '2026-11-30 20:15:22.474678+00');
INSERT INTO public.servetune_attempts VALUES (9, 1, 5, 'confirmation', 1, 166801239, 'stopping', 'measured', 'host-a', 7153, 1333135, 7153, 1333135, 9, 'study-1/trial-0000/attempt-5', NULL, '2026-11-30 20:15:25.299036+00', '2026-11-30 20:15:25.454475+00');
INSERT INTO public.servetune_attempts VALUES (3, 1, 2, 'baseline_repeat', 0, 0, 'stopping', 'measured', 'host-a', 7129, 1332900, 7129, 1332900, 9, 'study-1/trial-0000/attempt-2', NULL, '2026-11-30 20:15:22.933163+00', '2026-11-30 20:15:23.135466+00');
INSERT INTO public.servetune_attempts VALUES (4, 3, 1, 'search', NULL, 0, 'stopping', 'measured', 'host-a', 7147, 1332958, 7147, 1332958, 9, 'study-1/trial-0002/attempt-1', NULL, '2026-11-30 20:15:23.444058+00', '2026-11-30 20:15:23.808188+00');
INSERT INTO public.servetune_attempts VALUES (5, 1, 3, 'baseline_repeat', 1, 0, 'stopping', 'measured', 'host-a', 7148, 1333016, 7148, 1333016, 9, 'study-1/trial-0000/attempt-3', NULL, '2026-11-30 20:15:24.102261+00', '2026-11-30 20:15:24.302784+00');
INSERT INTO public.servetune_attempts VALUES (6, 1, 4, 'confirmation', 0, 1977507014, 'stopping', 'measured', 'host-a', 7150, 1333065, 7150, 1333065, 9, 'study-1/trial-0000/attempt-4', NULL, '2026-11-30 20:15:24.586439+00', '2026-11-30 20:15:24.776643+00');
INSERT INTO public.servetune_attempts VALUES (7, 2, 2, 'confirmation', 0, 1977507014, 'stopping', 'measured', 'host-a', 7151, 1333090, 7151, 1333090, 9, 'study-1/trial-0001/attempt-2', NULL, '2026-11-30 20:15:24.846143+00', '2026-11-30 20:15:24.996481+00');
INSERT INTO public.servetune_events VALUES (1, 1, 'study_created', NULL, '{"name":"chat","generation":1,"digest":"841631e296e51b7f4ad53db9939a4ebdff769e0efd39f81df2e3776814460a0b"}', '2026-11-30 20:15:20.771297+00');
INSERT INTO public.servetune_events VALUES (1, 2, 'study_state', NULL, '{"from":"queued","to":"running"}', '2026-11-30 20:15:21.191914+00');
INSERT INTO public.servetune_events VALUES (1, 3, 'trial_proposed', 0, '{"origin":"baseline","flags":{"max-model-len":4096,"max-num-seqs":2},"config_digest":"e033828ebf0911a1","coordinates":null,"optuna_number":null,"prediction":null}', '2026-11-30 20:15:21.230671+00');
INSERT INTO public.servetune_events VALUES (1, 4, 'attempt_started', 0, '{"attempt_id":1,"ordinal":1,"purpose":"search","round":null,"seed":0,"directory":"study-1/trial-0000/attempt-1"}', '2026-11-30 20:15:21.262582+00');
INSERT INTO public.servetune_events VALUES (1, 5, 'trial_state', 0, '{"from":"queued","to":"launching"}', '2026-11-30 20:15:21.268884+00');
INSERT INTO public.servetune_events VALUES (1, 6, 'attempt_state', 0, '{"attempt_id":1,"ordinal":1,"purpose":"search","round":null,"from":"launching","to":"warming_up"}', '2026-11-30 20:15:21.36253+00');
INSERT INTO public.servetune_events VALUES (1, 7, 'trial_state', 0, '{"from":"launching","to":"warming_up"}', '2026-11-30 20:15:21.376278+00');
INSERT INTO public.servetune_events VALUES (1, 8, 'load_calibrated', NULL, '{"format":2,"rate_per_s":8.0,"concurrency":32,"source":"calibrated","capacity_per_s":10.0,"knee_per_s":null,"power":null,"capacity_warmup_s":null,"rungs":[],"steps":[],"engine_s":null,"statement":null,"warning":null}', '2026-11-30 20:15:21.406123+00');
INSERT INTO public.servetune_events VALUES (1, 9, 'attempt_state', 0, '{"attempt_id":1,"ordinal":1,"purpose":"search","round":null,"from":"warming_up","to":"measuring"}', '2026-11-30 20:15:21.431069+00');
INSERT INTO public.servetune_events VALUES (1, 10, 'trial_state', 0, '{"from":"warming_up","to":"measuring"}', '2026-11-30 20:15:21.439504+00');
INSERT INTO public.servetune_events VALUES (1, 11, 'attempt_state', 0, '{"attempt_id":1,"ordinal":1,"purpose":"search","round":null,"from":"measuring","to":"stopping"}', '2026-11-30 20:15:21.469054+00');
INSERT INTO public.servetune_events VALUES (1, 12, 'trial_state', 0, '{"from":"measuring","to":"stopping"}', '2026-11-30 20:15:21.476544+00');
INSERT INTO public.servetune_events VALUES (1, 13, 'attempt_ended', 0, '{"attempt_id":1,"ordinal":1,"purpose":"search","round":null,"outcome":"measured"}', '2026-11-30 20:15:21.545733+00');
INSERT INTO public.servetune_events VALUES (1, 14, 'trial_state', 0, '{"from":"stopping","to":"complete"}', '2026-11-30 20:15:21.575018+00');
INSERT INTO public.servetune_events VALUES (1, 15, 'trial_scored', 0, '{"score":{"value":0.0,"terms":[{"metric":"ttft_p95","weight":0.3333333333333333,"baseline":401.19999999999993,"value":401.19999999999993,"improvement":1.0,"contribution":0.0},{"metric":"tpot_p95","weight":0.3333333333333333,"baseline":40.0,"value":40.0,"improvement":1.0,"contribution":0.0},{"metric":"throughput","weight":0.3333333333333333,"baseline":200.0,"value":200.0,"improvement":1.0,"contribution":0.0}],"penalty":0.0,"missing":[],"low":null,"high":null}}', '2026-11-30 20:15:21.600833+00');
INSERT INTO public.servetune_events VALUES (1, 16, 'notice', NULL, '{"kind":"baseline_outside_space","message":"The baseline lies outside the search space (max-num-seqs 2 is not within 8 to 64); it is measured and compared with, but the sampler learns nothing from it."}', '2026-11-30 20:15:21.652339+00');
INSERT INTO public.servetune_events VALUES (1, 17, 'phase', NULL, '{"from":"baseline","to":"search"}', '2026-11-30 20:15:21.696407+00');
INSERT INTO public.servetune_events VALUES (1, 18, 'trial_proposed', 1, '{"origin":"preset","flags":{"enable-chunked-prefill":true,"gpu-memory-utilization":0.95,"max-model-len":4096,"max-num-batched-tokens":2048,"max-num-seqs":64},"config_digest":"0f862a62c130ff98","coordinates":{"log2_max_num_seqs":6.0,"token_budget":0.6666666666666666,"enable_chunked_prefill":true,"memory_headroom":0.0},"optuna_number":0,"prediction":null}', '2026-11-30 20:15:22.128396+00');
INSERT INTO public.servetune_events VALUES (1, 19, 'attempt_started', 1, '{"attempt_id":2,"ordinal":1,"purpose":"search","round":null,"seed":0,"directory":"study-1/trial-0001/attempt-1"}', '2026-11-30 20:15:22.16084+00');
INSERT INTO public.servetune_events VALUES (1, 20, 'trial_state', 1, '{"from":"queued","to":"launching"}', '2026-11-30 20:15:22.167656+00');
INSERT INTO public.servetune_events VALUES (1, 21, 'attempt_state', 1, '{"attempt_id":2,"ordinal":1,"purpose":"search","round":null,"from":"launching","to":"warming_up"}', '2026-11-30 20:15:22.299171+00');
INSERT INTO public.servetune_events VALUES (1, 22, 'trial_state', 1, '{"from":"launching","to":"warming_up"}', '2026-11-30 20:15:22.315786+00');
INSERT INTO public.servetune_events VALUES (1, 23, 'attempt_state', 1, '{"attempt_id":2,"ordinal":1,"purpose":"search","round":null,"from":"warming_up","to":"measuring"}', '2026-11-30 20:15:22.350611+00');
INSERT INTO public.servetune_events VALUES (1, 24, 'trial_state', 1, '{"from":"warming_up","to":"measuring"}', '2026-11-30 20:15:22.374191+00');
INSERT INTO public.servetune_events VALUES (1, 25, 'attempt_state', 1, '{"attempt_id":2,"ordinal":1,"purpose":"search","round":null,"from":"measuring","to":"stopping"}', '2026-11-30 20:15:22.413194+00');
INSERT INTO public.servetune_events VALUES (1, 26, 'trial_state', 1, '{"from":"measuring","to":"stopping"}', '2026-11-30 20:15:22.430255+00');
INSERT INTO public.servetune_events VALUES (1, 27, 'attempt_ended', 1, '{"attempt_id":2,"ordinal":1,"purpose":"search","round":null,"outcome":"measured"}', '2026-11-30 20:15:22.486889+00');
INSERT INTO public.servetune_events VALUES (1, 28, 'trial_state', 1, '{"from":"stopping","to":"complete"}', '2026-11-30 20:15:22.500382+00');
INSERT INTO public.servetune_events VALUES (1, 29, 'trial_scored', 1, '{"score":{"value":1.1542497800339926,"terms":[{"metric":"ttft_p95","weight":0.3333333333333333,"baseline":401.19999999999993,"value":402.4,"improvement":0.9970178926441351,"contribution":-0.000995520899249693},{"metric":"tpot_p95","weight":0.3333333333333333,"baseline":40.0,"value":40.0,"improvement":1.0,"contribution":0.0},{"metric":"throughput","weight":0.3333333333333333,"baseline":200.0,"value":6400.0,"improvement":32.0,"contribution":1.1552453009332422}],"penalty":0.0,"missing":[],"low":null,"high":null}}', '2026-11-30 20:15:22.511776+00');
INSERT INTO public.servetune_events VALUES (1, 30, 'attempt_started', 0, '{"attempt_id":3,"ordinal":2,"purpose":"baseline_repeat","round":0,"seed":0,"directory":"study-1/trial-0000/attempt-2"}', '2026-11-30 20:15:22.940331+00');
INSERT INTO public.servetune_events VALUES (1, 31, 'attempt_state', 0, '{"attempt_id":3,"ordinal":2,"purpose":"baseline_repeat","round":0,"from":"launching","to":"warming_up"}', '2026-11-30 20:15:23.046977+00');
INSERT INTO public.servetune_events VALUES (1, 32, 'attempt_state', 0, '{"attempt_id":3,"ordinal":2,"purpose":"baseline_repeat","round":0,"from":"warming_up","to":"measuring"}', '2026-11-30 20:15:23.072675+00');
INSERT INTO public.servetune_events VALUES (1, 33, 'attempt_state', 0, '{"attempt_id":3,"ordinal":2,"purpose":"baseline_repeat","round":0,"from":"measuring","to":"stopping"}', '2026-11-30 20:15:23.105568+00');
INSERT INTO public.servetune_events VALUES (1, 34, 'attempt_ended', 0, '{"attempt_id":3,"ordinal":2,"purpose":"baseline_repeat","round":0,"outcome":"measured"}', '2026-11-30 20:15:23.1428+00');
INSERT INTO public.servetune_events VALUES (1, 35, 'trial_proposed', 2, '{"origin":"space_filling","flags":{"enable-chunked-prefill":false,"gpu-memory-utilization":0.9,"max-model-len":4096,"max-num-batched-tokens":4096,"max-num-seqs":12},"config_digest":"2851bb96d6ac408d","coordinates":{"log2_max_num_seqs":3.5805708914995193,"token_budget":0.9928648034110665,"enable_chunked_prefill":false,"memory_headroom":0.9961617896333337},"optuna_number":1,"prediction":null}', '2026-11-30 20:15:23.416556+00');
INSERT INTO public.servetune_events VALUES (1, 36, 'attempt_started', 2, '{"attempt_id":4,"ordinal":1,"purpose":"search","round":null,"seed":0,"directory":"study-1/trial-0002/attempt-1"}', '2026-11-30 20:15:23.453583+00');
INSERT INTO public.servetune_events VALUES (1, 37, 'trial_state', 2, '{"from":"queued","to":"launching"}', '2026-11-30 20:15:23.472478+00');
INSERT INTO public.servetune_events VALUES (1, 38, 'attempt_state', 2, '{"attempt_id":4,"ordinal":1,"purpose":"search","round":null,"from":"launching","to":"warming_up"}', '2026-11-30 20:15:23.67118+00');
INSERT INTO public.servetune_events VALUES (1, 39, 'trial_state', 2, '{"from":"launching","to":"warming_up"}', '2026-11-30 20:15:23.684299+00');
INSERT INTO public.servetune_events VALUES (1, 40, 'attempt_state', 2, '{"attempt_id":4,"ordinal":1,"purpose":"search","round":null,"from":"warming_up","to":"measuring"}', '2026-11-30 20:15:23.718476+00');
INSERT INTO public.servetune_events VALUES (1, 41, 'trial_state', 2, '{"from":"warming_up","to":"measuring"}', '2026-11-30 20:15:23.729578+00');
INSERT INTO public.servetune_events VALUES (1, 42, 'attempt_state', 2, '{"attempt_id":4,"ordinal":1,"purpose":"search","round":null,"from":"measuring","to":"stopping"}', '2026-11-30 20:15:23.758629+00');
INSERT INTO public.servetune_events VALUES (1, 43, 'trial_state', 2, '{"from":"measuring","to":"stopping"}', '2026-11-30 20:15:23.766841+00');
INSERT INTO public.servetune_events VALUES (1, 44, 'attempt_ended', 2, '{"attempt_id":4,"ordinal":1,"purpose":"search","round":null,"outcome":"measured"}', '2026-11-30 20:15:23.814882+00');
INSERT INTO public.servetune_events VALUES (1, 45, 'trial_state', 2, '{"from":"stopping","to":"complete"}', '2026-11-30 20:15:23.834993+00');
INSERT INTO public.servetune_events VALUES (1, 46, 'trial_scored', 2, '{"score":{"value":0.5972531564093516,"terms":[{"metric":"ttft_p95","weight":0.3333333333333333,"baseline":401.19999999999993,"value":401.19999999999993,"improvement":1.0,"contribution":0.0},{"metric":"tpot_p95","weight":0.3333333333333333,"baseline":40.0,"value":40.0,"improvement":1.0,"contribution":0.0},{"metric":"throughput","weight":0.3333333333333333,"baseline":200.0,"value":1200.0,"improvement":6.0,"contribution":0.5972531564093516}],"penalty":0.0,"missing":[],"low":null,"high":null}}', '2026-11-30 20:15:23.850932+00');
INSERT INTO public.servetune_events VALUES (1, 47, 'attempt_started', 0, '{"attempt_id":5,"ordinal":3,"purpose":"baseline_repeat","round":1,"seed":0,"directory":"study-1/trial-0000/attempt-3"}', '2026-11-30 20:15:24.105534+00');
INSERT INTO public.servetune_events VALUES (1, 48, 'attempt_state', 0, '{"attempt_id":5,"ordinal":3,"purpose":"baseline_repeat","round":1,"from":"launching","to":"warming_up"}', '2026-11-30 20:15:24.208898+00');
INSERT INTO public.servetune_events VALUES (1, 49, 'attempt_state', 0, '{"attempt_id":5,"ordinal":3,"purpose":"baseline_repeat","round":1,"from":"warming_up","to":"measuring"}', '2026-11-30 20:15:24.228663+00');
INSERT INTO public.servetune_events VALUES (1, 50, 'attempt_state', 0, '{"attempt_id":5,"ordinal":3,"purpose":"baseline_repeat","round":1,"from":"measuring","to":"stopping"}', '2026-11-30 20:15:24.250791+00');
INSERT INTO public.servetune_events VALUES (1, 51, 'attempt_ended', 0, '{"attempt_id":5,"ordinal":3,"purpose":"baseline_repeat","round":1,"outcome":"measured"}', '2026-11-30 20:15:24.311656+00');
INSERT INTO public.servetune_events VALUES (1, 52, 'notice', NULL, '{"kind":"search_ended","message":"2 trials are done"}', '2026-11-30 20:15:24.378753+00');
INSERT INTO public.servetune_events VALUES (1, 53, 'trial_scored', 0, '{"score":{"value":0.0,"terms":[{"metric":"ttft_p95","weight":0.3333333333333333,"baseline":401.1998670654261,"value":401.1998670654261,"improvement":1.0,"contribution":0.0},{"metric":"tpot_p95","weight":0.3333333333333333,"baseline":40.0,"value":40.0,"improvement":1.0,"contribution":0.0},{"metric":"throughput","weight":0.3333333333333333,"baseline":199.99999999999991,"value":199.99999999999991,"improvement":1.0,"contribution":0.0}],"penalty":0.0,"missing":[],"low":null,"high":null}}', '2026-11-30 20:15:24.435761+00');
INSERT INTO public.servetune_events VALUES (1, 54, 'trial_scored', 1, '{"score":{"value":1.154249669586505,"terms":[{"metric":"ttft_p95","weight":0.3333333333333333,"baseline":401.1998670654261,"value":402.4,"improvement":0.9970175622898263,"contribution":-0.0009956313467371334},{"metric":"tpot_p95","weight":0.3333333333333333,"baseline":40.0,"value":40.0,"improvement":1.0,"contribution":0.0},{"metric":"throughput","weight":0.3333333333333333,"baseline":199.99999999999991,"value":6400.0,"improvement":32.000000000000014,"contribution":1.1552453009332422}],"penalty":0.0,"missing":[],"low":null,"high":null}}', '2026-11-30 20:15:24.4552+00');
INSERT INTO public.servetune_events VALUES (1, 55, 'trial_scored', 2, '{"score":{"value":0.5972530459618643,"terms":[{"metric":"ttft_p95","weight":0.3333333333333333,"baseline":401.1998670654261,"value":401.19999999999993,"improvement":0.9999996686575926,"contribution":-1.104474874314e-07},{"metric":"tpot_p95","weight":0.3333333333333333,"baseline":40.0,"value":40.0,"improvement":1.0,"contribution":0.0},{"metric":"throughput","weight":0.3333333333333333,"baseline":199.99999999999991,"value":1200.0,"improvement":6.000000000000003,"contribution":0.5972531564093517}],"penalty":0.0,"missing":[],"low":null,"high":null}}', '2026-11-30 20:15:24.471285+00');
INSERT INTO public.servetune_events VALUES (1, 56, 'notice', NULL, '{"kind":"noise","message":"Noise of one score: 0.5 % (standard deviation; 3 fresh starts of the baseline differ by 0.0 %).","noise":{"sd":0.005,"within_run":null,"between_starts":0.0003323364482420293,"starts":3,"floor":0.005}}', '2026-11-30 20:15:24.500436+00');
INSERT INTO public.servetune_events VALUES (1, 57, 'phase', NULL, '{"from":"search","to":"confirmation"}', '2026-11-30 20:15:24.528224+00');
INSERT INTO public.servetune_events VALUES (1, 58, 'attempt_started', 0, '{"attempt_id":6,"ordinal":4,"purpose":"confirmation","round":0,"seed":1977507014,"directory":"study-1/trial-0000/attempt-4"}', '2026-11-30 20:15:24.59172+00');
INSERT INTO public.servetune_events VALUES (1, 59, 'attempt_state', 0, '{"attempt_id":6,"ordinal":4,"purpose":"confirmation","round":0,"from":"launching","to":"warming_up"}', '2026-11-30 20:15:24.694772+00');
INSERT INTO public.servetune_events VALUES (1, 60, 'attempt_state', 0, '{"attempt_id":6,"ordinal":4,"purpose":"confirmation","round":0,"from":"warming_up","to":"measuring"}', '2026-11-30 20:15:24.727277+00');
INSERT INTO public.servetune_events VALUES (1, 61, 'attempt_state', 0, '{"attempt_id":6,"ordinal":4,"purpose":"confirmation","round":0,"from":"measuring","to":"stopping"}', '2026-11-30 20:15:24.754807+00');
INSERT INTO public.servetune_events VALUES (1, 62, 'attempt_ended', 0, '{"attempt_id":6,"ordinal":4,"purpose":"confirmation","round":0,"outcome":"measured"}', '2026-11-30 20:15:24.784375+00');
INSERT INTO public.servetune_events VALUES (1, 63, 'attempt_started', 1, '{"attempt_id":7,"ordinal":2,"purpose":"confirmation","round":0,"seed":1977507014,"directory":"study-1/trial-0001/attempt-2"}', '2026-11-30 20:15:24.84839+00');
INSERT INTO public.servetune_events VALUES (1, 64, 'attempt_state', 1, '{"attempt_id":7,"ordinal":2,"purpose":"confirmation","round":0,"from":"launching","to":"warming_up"}', '2026-11-30 20:15:24.933943+00');
INSERT INTO public.servetune_events VALUES (1, 65, 'attempt_state', 1, '{"attempt_id":7,"ordinal":2,"purpose":"confirmation","round":0,"from":"warming_up","to":"measuring"}', '2026-11-30 20:15:24.952665+00');
INSERT INTO public.servetune_events VALUES (1, 66, 'attempt_state', 1, '{"attempt_id":7,"ordinal":2,"purpose":"confirmation","round":0,"from":"measuring","to":"stopping"}', '2026-11-30 20:15:24.979368+00');
INSERT INTO public.servetune_events VALUES (1, 67, 'attempt_ended', 1, '{"attempt_id":7,"ordinal":2,"purpose":"confirmation","round":0,"outcome":"measured"}', '2026-11-30 20:15:25.004853+00');
INSERT INTO public.servetune_events VALUES (1, 68, 'attempt_started', 1, '{"attempt_id":8,"ordinal":3,"purpose":"confirmation","round":1,"seed":166801239,"directory":"study-1/trial-0001/attempt-3"}', '2026-11-30 20:15:25.09346+00');
INSERT INTO public.servetune_events VALUES (1, 69, 'attempt_state', 1, '{"attempt_id":8,"ordinal":3,"purpose":"confirmation","round":1,"from":"launching","to":"warming_up"}', '2026-11-30 20:15:25.179619+00');
INSERT INTO public.servetune_events VALUES (1, 70, 'attempt_state', 1, '{"attempt_id":8,"ordinal":3,"purpose":"confirmation","round":1,"from":"warming_up","to":"measuring"}', '2026-11-30 20:15:25.195327+00');
INSERT INTO public.servetune_events VALUES (1, 71, 'attempt_state', 1, '{"attempt_id":8,"ordinal":3,"purpose":"confirmation","round":1,"from":"measuring","to":"stopping"}', '2026-11-30 20:15:25.213034+00');
INSERT INTO public.servetune_events VALUES (1, 72, 'attempt_ended', 1, '{"attempt_id":8,"ordinal":3,"purpose":"confirmation","round":1,"outcome":"measured"}', '2026-11-30 20:15:25.235669+00');
INSERT INTO public.servetune_events VALUES (1, 73, 'attempt_started', 0, '{"attempt_id":9,"ordinal":5,"purpose":"confirmation","round":1,"seed":166801239,"directory":"study-1/trial-0000/attempt-5"}', '2026-11-30 20:15:25.306711+00');
INSERT INTO public.servetune_events VALUES (1, 74, 'attempt_state', 0, '{"attempt_id":9,"ordinal":5,"purpose":"confirmation","round":1,"from":"launching","to":"warming_up"}', '2026-11-30 20:15:25.390196+00');
INSERT INTO public.servetune_events VALUES (1, 75, 'attempt_state', 0, '{"attempt_id":9,"ordinal":5,"purpose":"confirmation","round":1,"from":"warming_up","to":"measuring"}', '2026-11-30 20:15:25.412624+00');
INSERT INTO public.servetune_events VALUES (1, 76, 'attempt_state', 0, '{"attempt_id":9,"ordinal":5,"purpose":"confirmation","round":1,"from":"measuring","to":"stopping"}', '2026-11-30 20:15:25.436631+00');
INSERT INTO public.servetune_events VALUES (1, 77, 'attempt_ended', 0, '{"attempt_id":9,"ordinal":5,"purpose":"confirmation","round":1,"outcome":"measured"}', '2026-11-30 20:15:25.461915+00');
INSERT INTO public.servetune_events VALUES (1, 78, 'phase', NULL, '{"from":"confirmation","to":"recommendation"}', '2026-11-30 20:15:25.524259+00');
INSERT INTO public.servetune_events VALUES (1, 79, 'recommendation', NULL, '{"verdict":"better","headline":"Trial 1 is better than the baseline by 176.8\u2013263.3 %.","reason":"The baseline, saturated, was bound by the cap on sequences: 64 of at most 2 sequences running, 10 waiting, KV cache 90% full. Changed: gpu-memory-utilization 0.92 (default) \u2192 0.95, max-num-seqs 2 \u2192 64. Measured: TTFT p95 401.4 \u2192 402.8 ms (+0.3 %), TPOT p95 40 \u2192 40 ms (+0.0 %), throughput 200 \u2192 6400 tokens/s (+3100.0 %). The improvement is the weighted mean of latencies and throughput on a log scale, over 2 paired rounds of fresh starts (90% interval 176.8\u2013263.3 %).","trial":1,"flags":{"enable-chunked-prefill":true,"gpu-memory-utilization":0.95,"max-model-len":4096,"max-num-batched-tokens":2048,"max-num-seqs":64},"reference_trial":0,"reference_is_baseline":true,"gain":{"score_mean":1.1540850111484424,"score_low":1.0182133276671221,"score_high":1.2899566946297627,"percent_mean":217.11205497343383,"percent_low":176.82443972643304,"percent_high":263.2629239992352,"rounds":2,"level":0.9,"round_spread":0.08164976759653308},"metrics":[{"name":"TTFT p95","unit":"ms","before":401.39955156925623,"after":402.7992055602888,"change_percent":0.3486934615548609,"change_low_percent":-12.400270145356496,"change_high_percent":14.953097414230571},{"name":"TPOT p95","unit":"ms","before":40.0,"after":40.0,"change_percent":0.0,"change_low_percent":-12.704520112491299,"change_high_percent":14.55346843715469},{"name":"throughput","unit":"tokens/s","before":199.99999999999991,"after":6399.9999999999945,"change_percent":3099.9999999999986,"change_low_percent":2693.455356400279,"change_high_percent":3565.710989988949}],"changes":[{"flag":"gpu-memory-utilization","before":0.92,"after":0.95,"before_is_default":true,"after_is_default":false},{"flag":"max-num-seqs","before":2,"after":64,"before_is_default":false,"after_is_default":false}],"finalists":[{"trial":1,"gain":{"score_mean":1.1540850111484424,"score_low":1.0182133276671221,"score_high":1.2899566946297627,"percent_mean":217.11205497343383,"percent_low":176.82443972643304,"percent_high":263.2629239992352,"rounds":2,"level":0.9,"round_spread":0.08164976759653308},"failure":null,"weaknesses":[]}],"noise":{"sd":0.005,"within_run":null,"between_starts":0.0003323364482420293,"starts":3,"floor":0.005},"picks":[{"name":"lowest TTFT","trial_number":2,"ttft_ms":401.19999999999993,"tpot_ms":40.0,"output_tokens_per_s":1200.0,"score":0.5972530459618643},{"name":"lowest TPOT","trial_number":1,"ttft_ms":402.4,"tpot_ms":40.0,"output_tokens_per_s":6400.0,"score":1.154249669586505},{"name":"highest throughput","trial_number":1,"ttft_ms":402.4,"tpot_ms":40.0,"output_tokens_per_s":6400.0,"score":1.154249669586505}],"simulated":true}', '2026-11-30 20:15:25.559459+00');
INSERT INTO public.servetune_events VALUES (1, 80, 'phase', NULL, '{"from":"recommendation","to":"done"}', '2026-11-30 20:15:25.576128+00');
INSERT INTO public.servetune_events VALUES (1, 81, 'study_state', NULL, '{"from":"running","to":"complete"}', '2026-11-30 20:15:25.587678+00');
INSERT INTO public.servetune_events VALUES (2, 1, 'study_created', NULL, '{"name":"waiting","generation":1,"digest":"a4148623794a5932d54d1e7f831df9f65af19c80569262e716407b92c5294840"}', '2026-11-30 20:15:25.654399+00');
INSERT INTO public.servetune_measurements VALUES (1, '{"format":1,"latency":{"window_s":60.0,"offered_per_s":5.0,"achieved_per_s":5.0,"requests":{"scheduled":300,"completed":300,"failed":0,"unfinished":0},"ttft_ms":{"mean":{"value":200.59999999999997,"n":300,"low":null,"high":null},"p50":{"value":200.59999999999997,"n":300,"low":null,"high":null},"p90":{"value":361.0799999999999,"n":300,"low":null,"high":null},"p95":{"value":401.19999999999993,"n":300,"low":null,"high":null},"p99":{"value":521.56,"n":300,"low":null,"high":null},"max":{"value":802.3999999999999,"n":300,"low":null,"high":null},"censored":0},"tpot_ms":{"mean":{"value":20.0,"n":300,"low":null,"high":null},"p50":{"value":20.0,"n":300,"low":null,"high":null},"p90":{"value":36.0,"n":300,"low":null,"high":null},"p95":{"value":40.0,"n":300,"low":null,"high":null},"p99":{"value":52.0,"n":300,"low":null,"high":null},"max":{"value":80.0,"n":300,"low":null,"high":null},"censored":0},"itl_ms":{"mean":{"value":20.0,"n":300,"low":null,"high":null},"p50":{"value":20.0,"n":300,"low":null,"high":null},"p90":{"value":36.0,"n":300,"low":null,"high":null},"p95":{"value":40.0,"n":300,"low":null,"high":null},"p99":{"value":52.0,"n":300,"low":null,"high":null},"max":{"value":80.0,"n":300,"low":null,"high":null},"censored":0},"e2e_ms":{"mean":{"value":2000.0,"n":300,"low":null,"high":null},"p50":{"value":2000.0,"n":300,"low":null,"high":null},"p90":{"value":3600.0,"n":300,"low":null,"high":null},"p95":{"value":4000.0,"n":300,"low":null,"high":null},"p99":{"value":5200.0,"n":300,"low":null,"high":null},"max":{"value":8000.0,"n":300,"low":null,"high":null},"censored":0},"output_tokens_per_s":{"value":800.0,"n":300,"low":null,"high":null},"slo_attainment":null,"goodput_per_s":null,"preemptions":0,"kv_usage_peak":0.6,"running_peak":20.0,"waiting_peak":2.0,"gpu_utilization":null,"by_prompt_length":[],"prefix":null},"capacity":{"window_s":30.0,"concurrency":64,"requests":{"scheduled":200,"completed":200,"failed":0,"unfinished":64},"output_tokens_per_s":{"value":200.0,"n":200,"low":null,"high":null},"requests_per_s":{"value":6.0,"n":200,"low":null,"high":null},"preemptions":0,"kv_usage_peak":0.9,"running_peak":64.0,"waiting_peak":10.0,"gpu_utilization":null,"steady":null},"instrument":{"valid":true,"reasons":[],"send_lag_p50_ms":0.1,"send_lag_p99_ms":0.5,"client_cpu_share":0.2,"loop_stall_max_ms":1.0,"clock":"monotonic","client_output_tokens":null,"server_output_tokens":null,"prefix_hit_rate":null},"engine":{"version":"0.33.0","kv_cache_tokens":40000,"max_concurrency":null,"weights_gib":null,"kv_cache_gib":null,"graph_gib":null,"startup_s":null,"max_num_seqs":null,"max_num_batched_tokens":null,"chunked_prefill":null,"gpu_memory_utilization":null,"simulated":true},"workload_digest":"0123456789abcdef","workload_seed":0,"simulated":true,"time_scale":1.0,"notes":[]}', true, '2026-11-30 20:15:21.536597+00');
INSERT INTO public.servetune_measurements VALUES (2, '{"format":1,"latency":{"window_s":60.0,"offered_per_s":5.0,"achieved_per_s":5.0,"requests":{"scheduled":300,"completed":300,"failed":0,"unfinished":0},"ttft_ms":{"mean":{"value":201.2,"n":300,"low":null,"high":null},"p50":{"value":201.2,"n":300,"low":null,"high":null},"p90":{"value":362.15999999999997,"n":300,"low":null,"high":null},"p95":{"value":402.4,"n":300,"low":null,"high":null},"p99":{"value":523.12,"n":300,"low":null,"high":null},"max":{"value":804.8,"n":300,"low":null,"high":null},"censored":0},"tpot_ms":{"mean":{"value":20.0,"n":300,"low":null,"high":null},"p50":{"value":20.0,"n":300,"low":null,"high":null},"p90":{"value":36.0,"n":300,"low":null,"high":null},"p95":{"value":40.0,"n":300,"low":null,"high":null},"p99":{"value":52.0,"n":300,"low":null,"high":null},"max":{"value":80.0,"n":300,"low":null,"high":null},"censored":0},"itl_ms":{"mean":{"value":20.0,"n":300,"low":null,"high":null},"p50":{"value":20.0,"n":300,"low":null,"high":null},"p90":{"value":36.0,"n":300,"low":null,"high":null},"p95":{"value":40.0,"n":300,"low":null,"high":null},"p99":{"value":52.0,"n":300,"low":null,"high":null},"max":{"value":80.0,"n":300,"low":null,"high":null},"censored":0},"e2e_ms":{"mean":{"value":2000.0,"n":300,"low":null,"high":null},"p50":{"value":2000.0,"n":300,"low":null,"high":null},"p90":{"value":3600.0,"n":300,"low":null,"high":null},"p95":{"value":4000.0,"n":300,"low":null,"high":null},"p99":{"value":5200.0,"n":300,"low":null,"high":null},"max":{"value":8000.0,"n":300,"low":null,"high":null},"censored":0},"output_tokens_per_s":{"value":800.0,"n":300,"low":null,"high":null},"slo_attainment":null,"goodput_per_s":null,"preemptions":0,"kv_usage_peak":0.6,"running_peak":20.0,"waiting_peak":2.0,"gpu_utilization":null,"by_prompt_length":[],"prefix":null},"capacity":{"window_s":30.0,"concurrency":64,"requests":{"scheduled":200,"completed":200,"failed":0,"unfinished":64},"output_tokens_per_s":{"value":6400.0,"n":200,"low":null,"high":null},"requests_per_s":{"value":6.0,"n":200,"low":null,"high":null},"preemptions":0,"kv_usage_peak":0.9,"running_peak":64.0,"waiting_peak":10.0,"gpu_utilization":null,"steady":null},"instrument":{"valid":true,"reasons":[],"send_lag_p50_ms":0.1,"send_lag_p99_ms":0.5,"client_cpu_share":0.2,"loop_stall_max_ms":1.0,"clock":"monotonic","client_output_tokens":null,"server_output_tokens":null,"prefix_hit_rate":null},"engine":{"version":"0.33.0","kv_cache_tokens":40000,"max_concurrency":null,"weights_gib":null,"kv_cache_gib":null,"graph_gib":null,"startup_s":null,"max_num_seqs":null,"max_num_batched_tokens":null,"chunked_prefill":null,"gpu_memory_utilization":null,"simulated":true},"workload_digest":"0123456789abcdef","workload_seed":0,"simulated":true,"time_scale":1.0,"notes":[]}', true, '2026-11-30 20:15:22.474678+00');
INSERT INTO public.servetune_measurements VALUES (3, '{"format":1,"latency":{"window_s":60.0,"offered_per_s":5.0,"achieved_per_s":5.0,"requests":{"scheduled":300,"completed":300,"failed":0,"unfinished":0},"ttft_ms":{"mean":{"value":200.4,"n":300,"low":null,"high":null},"p50":{"value":200.4,"n":300,"low":null,"high":null},"p90":{"value":360.72,"n":300,"low":null,"high":null},"p95":{"value":400.8,"n":300,"low":null,"high":null},"p99":{"value":521.0400000000001,"n":300,"low":null,"high":null},"max":{"value":801.6,"n":300,"low":null,"high":null},"censored":0},"tpot_ms":{"mean":{"value":20.0,"n":300,"low":null,"high":null},"p50":{"value":20.0,"n":300,"low":null,"high":null},"p90":{"value":36.0,"n":300,"low":null,"high":null},"p95":{"value":40.0,"n":300,"low":null,"high":null},"p99":{"value":52.0,"n":300,"low":null,"high":null},"max":{"value":80.0,"n":300,"low":null,"high":null},"censored":0},"itl_ms":{"mean":{"value":20.0,"n":300,"low":null,"high":null},"p50":{"value":20.0,"n":300,"low":null,"high":null},"p90":{"value":36.0,"n":300,"low":null,"high":null},"p95":{"value":40.0,"n":300,"low":null,"high":null},"p99":{"value":52.0,"n":300,"low":null,"high":null},"max":{"value":80.0,"n":300,"low":null,"high":null},"censored":0},"e2e_ms":{"mean":{"value":2000.0,"n":300,"low":null,"high":null},"p50":{"value":2000.0,"n":300,"low":null,"high":null},"p90":{"value":3600.0,"n":300,"low":null,"high":null},"p95":{"value":4000.0,"n":300,"low":null,"high":null},"p99":{"value":5200.0,"n":300,"low":null,"high":null},"max":{"value":8000.0,"n":300,"low":null,"high":null},"censored":0},"output_tokens_per_s":{"value":800.0,"n":300,"low":null,"high":null},"slo_attainment":null,"goodput_per_s":null,"preemptions":0,"kv_usage_peak":0.6,"running_peak":20.0,"waiting_peak":2.0,"gpu_utilization":null,"by_prompt_length":[],"prefix":null},"capacity":{"window_s":30.0,"concurrency":64,"requests":{"scheduled":200,"completed":200,"failed":0,"unfinished":64},"output_tokens_per_s":{"value":200.0,"n":200,"low":null,"high":null},"requests_per_s":{"value":6.0,"n":200,"low":null,"high":null},"preemptions":0,"kv_usage_peak":0.9,"running_peak":64.0,"waiting_peak":10.0,"gpu_utilization":null,"steady":null},"instrument":{"valid":true,"reasons":[],"send_lag_p50_ms":0.1,"send_lag_p99_ms":0.5,"client_cpu_share":0.2,"loop_stall_max_ms":1.0,"clock":"monotonic","client_output_tokens":null,"server_output_tokens":null,"prefix_hit_rate":null},"engine":{"version":"0.33.0","kv_cache_tokens":40000,"max_concurrency":null,"weights_gib":null,"kv_cache_gib":null,"graph_gib":null,"startup_s":null,"max_num_seqs":null,"max_num_batched_tokens":null,"chunked_prefill":null,"gpu_memory_utilization":null,"simulated":true},"workload_digest":"0123456789abcdef","workload_seed":0,"simulated":true,"time_scale":1.0,"notes":[]}', true, '2026-11-30 20:15:23.135466+00');
INSERT INTO public.servetune_measurements VALUES (4, '{"format":1,"latency":{"window_s":60.0,"offered_per_s":5.0,"achieved_per_s":5.0,"requests":{"scheduled":300,"completed":300,"failed":0,"unfinished":0},"ttft_ms":{"mean":{"value":200.59999999999997,"n":300,"low":null,"high":null},"p50":{"value":200.59999999999997,"n":300,"low":null,"high":null},"p90":{"value":361.0799999999999,"n":300,"low":null,"high":null},"p95":{"value":401.19999999999993,"n":300,"low":null,"high":null},"p99":{"value":521.56,"n":300,"low":null,"high":null},"max":{"value":802.3999999999999,"n":300,"low":null,"high":null},"censored":0},"tpot_ms":{"mean":{"value":20.0,"n":300,"low":null,"high":null},"p50":{"value":20.0,"n":300,"low":null,"high":null},"p90":{"value":36.0,"n":300,"low":null,"high":null},"p95":{"value":40.0,"n":300,"low":null,"high":null},"p99":{"value":52.0,"n":300,"low":null,"high":null},"max":{"value":80.0,"n":300,"low":null,"high":null},"censored":0},"itl_ms":{"mean":{"value":20.0,"n":300,"low":null,"high":null},"p50":{"value":20.0,"n":300,"low":null,"high":null},"p90":{"value":36.0,"n":300,"low":null,"high":null},"p95":{"value":40.0,"n":300,"low":null,"high":null},"p99":{"value":52.0,"n":300,"low":null,"high":null},"max":{"value":80.0,"n":300,"low":null,"high":null},"censored":0},"e2e_ms":{"mean":{"value":2000.0,"n":300,"low":null,"high":null},"p50":{"value":2000.0,"n":300,"low":null,"high":null},"p90":{"value":3600.0,"n":300,"low":null,"high":null},"p95":{"value":4000.0,"n":300,"low":null,"high":null},"p99":{"value":5200.0,"n":300,"low":null,"high":null},"max":{"value":8000.0,"n":300,"low":null,"high":null},"censored":0},"output_tokens_per_s":{"value":800.0,"n":300,"low":null,"high":null},"slo_attainment":null,"goodput_per_s":null,"preemptions":0,"kv_usage_peak":0.6,"running_peak":20.0,"waiting_peak":2.0,"gpu_utilization":null,"by_prompt_length":[],"prefix":null},"capacity":{"window_s":30.0,"concurrency":64,"requests":{"scheduled":200,"completed":200,"failed":0,"unfinished":64},"output_tokens_per_s":{"value":1200.0,"n":200,"low":null,"high":null},"requests_per_s":{"value":6.0,"n":200,"low":null,"high":null},"preemptions":0,"kv_usage_peak":0.9,"running_peak":64.0,"waiting_peak":10.0,"gpu_utilization":null,"steady":null},"instrument":{"valid":true,"reasons":[],"send_lag_p50_ms":0.1,"send_lag_p99_ms":0.5,"client_cpu_share":0.2,"loop_stall_max_ms":1.0,"clock":"monotonic","client_output_tokens":null,"server_output_tokens":null,"prefix_hit_rate":null},"engine":{"version":"0.33.0","kv_cache_tokens":40000,"max_concurrency":null,"weights_gib":null,"kv_cache_gib":null,"graph_gib":null,"startup_s":null,"max_num_seqs":null,"max_num_batched_tokens":null,"chunked_prefill":null,"gpu_memory_utilization":null,"simulated":true},"workload_digest":"0123456789abcdef","workload_seed":0,"simulated":true,"time_scale":1.0,"notes":[]}', true, '2026-11-30 20:15:23.808188+00');
INSERT INTO public.servetune_measurements VALUES (5, '{"format":1,"latency":{"window_s":60.0,"offered_per_s":5.0,"achieved_per_s":5.0,"requests":{"scheduled":300,"completed":300,"failed":0,"unfinished":0},"ttft_ms":{"mean":{"value":200.8,"n":300,"low":null,"high":null},"p50":{"value":200.8,"n":300,"low":null,"high":null},"p90":{"value":361.44000000000005,"n":300,"low":null,"high":null},"p95":{"value":401.6,"n":300,"low":null,"high":null},"p99":{"value":522.08,"n":300,"low":null,"high":null},"max":{"value":803.2,"n":300,"low":null,"high":null},"censored":0},"tpot_ms":{"mean":{"value":20.0,"n":300,"low":null,"high":null},"p50":{"value":20.0,"n":300,"low":null,"high":null},"p90":{"value":36.0,"n":300,"low":null,"high":null},"p95":{"value":40.0,"n":300,"low":null,"high":null},"p99":{"value":52.0,"n":300,"low":null,"high":null},"max":{"value":80.0,"n":300,"low":null,"high":null},"censored":0},"itl_ms":{"mean":{"value":20.0,"n":300,"low":null,"high":null},"p50":{"value":20.0,"n":300,"low":null,"high":null},"p90":{"value":36.0,"n":300,"low":null,"high":null},"p95":{"value":40.0,"n":300,"low":null,"high":null},"p99":{"value":52.0,"n":300,"low":null,"high":null},"max":{"value":80.0,"n":300,"low":null,"high":null},"censored":0},"e2e_ms":{"mean":{"value":2000.0,"n":300,"low":null,"high":null},"p50":{"value":2000.0,"n":300,"low":null,"high":null},"p90":{"value":3600.0,"n":300,"low":null,"high":null},"p95":{"value":4000.0,"n":300,"low":null,"high":null},"p99":{"value":5200.0,"n":300,"low":null,"high":null},"max":{"value":8000.0,"n":300,"low":null,"high":null},"censored":0},"output_tokens_per_s":{"value":800.0,"n":300,"low":null,"high":null},"slo_attainment":null,"goodput_per_s":null,"preemptions":0,"kv_usage_peak":0.6,"running_peak":20.0,"waiting_peak":2.0,"gpu_utilization":null,"by_prompt_length":[],"prefix":null},"capacity":{"window_s":30.0,"concurrency":64,"requests":{"scheduled":200,"completed":200,"failed":0,"unfinished":64},"output_tokens_per_s":{"value":200.0,"n":200,"low":null,"high":null},"requests_per_s":{"value":6.0,"n":200,"low":null,"high":null},"preemptions":0,"kv_usage_peak":0.9,"running_peak":64.0,"waiting_peak":10.0,"gpu_utilization":null,"steady":null},"instrument":{"valid":true,"reasons":[],"send_lag_p50_ms":0.1,"send_lag_p99_ms":0.5,"client_cpu_share":0.2,"loop_stall_max_ms":1.0,"clock":"monotonic","client_output_tokens":null,"server_output_tokens":null,"prefix_hit_rate":null},"engine":{"version":"0.33.0","kv_cache_tokens":40000,"max_concurrency":null,"weights_gib":null,"kv_cache_gib":null,"graph_gib":null,"startup_s":null,"max_num_seqs":null,"max_num_batched_tokens":null,"chunked_prefill":null,"gpu_memory_utilization":null,"simulated":true},"workload_digest":"0123456789abcdef","workload_seed":0,"simulated":true,"time_scale":1.0,"notes":[]}', true, '2026-11-30 20:15:24.302784+00');
INSERT INTO public.servetune_measurements VALUES (6, '{"format":1,"latency":{"window_s":60.0,"offered_per_s":5.0,"achieved_per_s":5.0,"requests":{"scheduled":300,"completed":300,"failed":0,"unfinished":0},"ttft_ms":{"mean":{"value":200.4,"n":300,"low":null,"high":null},"p50":{"value":200.4,"n":300,"low":null,"high":null},"p90":{"value":360.72,"n":300,"low":null,"high":null},"p95":{"value":400.8,"n":300,"low":null,"high":null},"p99":{"value":521.0400000000001,"n":300,"low":null,"high":null},"max":{"value":801.6,"n":300,"low":null,"high":null},"censored":0},"tpot_ms":{"mean":{"value":20.0,"n":300,"low":null,"high":null},"p50":{"value":20.0,"n":300,"low":null,"high":null},"p90":{"value":36.0,"n":300,"low":null,"high":null},"p95":{"value":40.0,"n":300,"low":null,"high":null},"p99":{"value":52.0,"n":300,"low":null,"high":null},"max":{"value":80.0,"n":300,"low":null,"high":null},"censored":0},"itl_ms":{"mean":{"value":20.0,"n":300,"low":null,"high":null},"p50":{"value":20.0,"n":300,"low":null,"high":null},"p90":{"value":36.0,"n":300,"low":null,"high":null},"p95":{"value":40.0,"n":300,"low":null,"high":null},"p99":{"value":52.0,"n":300,"low":null,"high":null},"max":{"value":80.0,"n":300,"low":null,"high":null},"censored":0},"e2e_ms":{"mean":{"value":2000.0,"n":300,"low":null,"high":null},"p50":{"value":2000.0,"n":300,"low":null,"high":null},"p90":{"value":3600.0,"n":300,"low":null,"high":null},"p95":{"value":4000.0,"n":300,"low":null,"high":null},"p99":{"value":5200.0,"n":300,"low":null,"high":null},"max":{"value":8000.0,"n":300,"low":null,"high":null},"censored":0},"output_tokens_per_s":{"value":800.0,"n":300,"low":null,"high":null},"slo_attainment":null,"goodput_per_s":null,"preemptions":0,"kv_usage_peak":0.6,"running_peak":20.0,"waiting_peak":2.0,"gpu_utilization":null,"by_prompt_length":[],"prefix":null},"capacity":{"window_s":30.0,"concurrency":64,"requests":{"scheduled":200,"completed":200,"failed":0,"unfinished":64},"output_tokens_per_s":{"value":200.0,"n":200,"low":null,"high":null},"requests_per_s":{"value":6.0,"n":200,"low":null,"high":null},"preemptions":0,"kv_usage_peak":0.9,"running_peak":64.0,"waiting_peak":10.0,"gpu_utilization":null,"steady":null},"instrument":{"valid":true,"reasons":[],"send_lag_p50_ms":0.1,"send_lag_p99_ms":0.5,"client_cpu_share":0.2,"loop_stall_max_ms":1.0,"clock":"monotonic","client_output_tokens":null,"server_output_tokens":null,"prefix_hit_rate":null},"engine":{"version":"0.33.0","kv_cache_tokens":40000,"max_concurrency":null,"weights_gib":null,"kv_cache_gib":null,"graph_gib":null,"startup_s":null,"max_num_seqs":null,"max_num_batched_tokens":null,"chunked_prefill":null,"gpu_memory_utilization":null,"simulated":true},"workload_digest":"0123456789abcdef","workload_seed":1977507014,"simulated":true,"time_scale":1.0,"notes":[]}', true, '2026-11-30 20:15:24.776643+00');
INSERT INTO public.servetune_measurements VALUES (7, '{"format":1,"latency":{"window_s":60.0,"offered_per_s":5.0,"achieved_per_s":5.0,"requests":{"scheduled":300,"completed":300,"failed":0,"unfinished":0},"ttft_ms":{"mean":{"value":200.99999999999997,"n":300,"low":null,"high":null},"p50":{"value":200.99999999999997,"n":300,"low":null,"high":null},"p90":{"value":361.79999999999995,"n":300,"low":null,"high":null},"p95":{"value":401.99999999999994,"n":300,"low":null,"high":null},"p99":{"value":522.5999999999999,"n":300,"low":null,"high":null},"max":{"value":803.9999999999999,"n":300,"low":null,"high":null},"censored":0},"tpot_ms":{"mean":{"value":20.0,"n":300,"low":null,"high":null},"p50":{"value":20.0,"n":300,"low":null,"high":null},"p90":{"value":36.0,"n":300,"low":null,"high":null},"p95":{"value":40.0,"n":300,"low":null,"high":null},"p99":{"value":52.0,"n":300,"low":null,"high":null},"max":{"value":80.0,"n":300,"low":null,"high":null},"censored":0},"itl_ms":{"mean":{"value":20.0,"n":300,"low":null,"high":null},"p50":{"value":20.0,"n":300,"low":null,"high":null},"p90":{"value":36.0,"n":300,"low":null,"high":null},"p95":{"value":40.0,"n":300,"low":null,"high":null},"p99":{"value":52.0,"n":300,"low":null,"high":null},"max":{"value":80.0,"n":300,"low":null,"high":null},"censored":0},"e2e_ms":{"mean":{"value":2000.0,"n":300,"low":null,"high":null},"p50":{"value":2000.0,"n":300,"low":null,"high":null},"p90":{"value":3600.0,"n":300,"low":null,"high":null},"p95":{"value":4000.0,"n":300,"low":null,"high":null},"p99":{"value":5200.0,"n":300,"low":null,"high":null},"max":{"value":8000.0,"n":300,"low":null,"high":null},"censored":0},"output_tokens_per_s":{"value":800.0,"n":300,"low":null,"high":null},"slo_attainment":null,"goodput_per_s":null,"preemptions":0,"kv_usage_peak":0.6,"running_peak":20.0,"waiting_peak":2.0,"gpu_utilization":null,"by_prompt_length":[],"prefix":null},"capacity":{"window_s":30.0,"concurrency":64,"requests":{"scheduled":200,"completed":200,"failed":0,"unfinished":64},"output_tokens_per_s":{"value":6400.0,"n":200,"low":null,"high":null},"requests_per_s":{"value":6.0,"n":200,"low":null,"high":null},"preemptions":0,"kv_usage_peak":0.9,"running_peak":64.0,"waiting_peak":10.0,"gpu_utilization":null,"steady":null},"instrument":{"valid":true,"reasons":[],"send_lag_p50_ms":0.1,"send_lag_p99_ms":0.5,"client_cpu_share":0.2,"loop_stall_max_ms":1.0,"clock":"monotonic","client_output_tokens":null,"server_output_tokens":null,"prefix_hit_rate":null},"engine":{"version":"0.33.0","kv_cache_tokens":40000,"max_concurrency":null,"weights_gib":null,"kv_cache_gib":null,"graph_gib":null,"startup_s":null,"max_num_seqs":null,"max_num_batched_tokens":null,"chunked_prefill":null,"gpu_memory_utilization":null,"simulated":true},"workload_digest":"0123456789abcdef","workload_seed":1977507014,"simulated":true,"time_scale":1.0,"notes":[]}', true, '2026-11-30 20:15:24.996481+00');
INSERT INTO public.servetune_measurements VALUES (8, '{"format":1,"latency":{"window_s":60.0,"offered_per_s":5.0,"achieved_per_s":5.0,"requests":{"scheduled":300,"completed":300,"failed":0,"unfinished":0},"ttft_ms":{"mean":{"value":201.79999999999998,"n":300,"low":null,"high":null},"p50":{"value":201.79999999999998,"n":300,"low":null,"high":null},"p90":{"value":363.23999999999995,"n":300,"low":null,"high":null},"p95":{"value":403.59999999999997,"n":300,"low":null,"high":null},"p99":{"value":524.68,"n":300,"low":null,"high":null},"max":{"value":807.1999999999999,"n":300,"low":null,"high":null},"censored":0},"tpot_ms":{"mean":{"value":20.0,"n":300,"low":null,"high":null},"p50":{"value":20.0,"n":300,"low":null,"high":null},"p90":{"value":36.0,"n":300,"low":null,"high":null},"p95":{"value":40.0,"n":300,"low":null,"high":null},"p99":{"value":52.0,"n":300,"low":null,"high":null},"max":{"value":80.0,"n":300,"low":null,"high":null},"censored":0},"itl_ms":{"mean":{"value":20.0,"n":300,"low":null,"high":null},"p50":{"value":20.0,"n":300,"low":null,"high":null},"p90":{"value":36.0,"n":300,"low":null,"high":null},"p95":{"value":40.0,"n":300,"low":null,"high":null},"p99":{"value":52.0,"n":300,"low":null,"high":null},"max":{"value":80.0,"n":300,"low":null,"high":null},"censored":0},"e2e_ms":{"mean":{"value":2000.0,"n":300,"low":null,"high":null},"p50":{"value":2000.0,"n":300,"low":null,"high":null},"p90":{"value":3600.0,"n":300,"low":null,"high":null},"p95":{"value":4000.0,"n":300,"low":null,"high":null},"p99":{"value":5200.0,"n":300,"low":null,"high":null},"max":{"value":8000.0,"n":300,"low":null,"high":null},"censored":0},"output_tokens_per_s":{"value":800.0,"n":300,"low":null,"high":null},"slo_attainment":null,"goodput_per_s":null,"preemptions":0,"kv_usage_peak":0.6,"running_peak":20.0,"waiting_peak":2.0,"gpu_utilization":null,"by_prompt_length":[],"prefix":null},"capacity":{"window_s":30.0,"concurrency":64,"requests":{"scheduled":200,"completed":200,"failed":0,"unfinished":64},"output_tokens_per_s":{"value":6400.0,"n":200,"low":null,"high":null},"requests_per_s":{"value":6.0,"n":200,"low":null,"high":null},"preemptions":0,"kv_usage_peak":0.9,"running_peak":64.0,"waiting_peak":10.0,"gpu_utilization":null,"steady":null},"instrument":{"valid":true,"reasons":[],"send_lag_p50_ms":0.1,"send_lag_p99_ms":0.5,"client_cpu_share":0.2,"loop_stall_max_ms":1.0,"clock":"monotonic","client_output_tokens":null,"server_output_tokens":null,"prefix_hit_rate":null},"engine":{"version":"0.33.0","kv_cache_tokens":40000,"max_concurrency":null,"weights_gib":null,"kv_cache_gib":null,"graph_gib":null,"startup_s":null,"max_num_seqs":null,"max_num_batched_tokens":null,"chunked_prefill":null,"gpu_memory_utilization":null,"simulated":true},"workload_digest":"0123456789abcdef","workload_seed":166801239,"simulated":true,"time_scale":1.0,"notes":[]}', true, '2026-11-30 20:15:25.227338+00');
INSERT INTO public.servetune_measurements VALUES (9, '{"format":1,"latency":{"window_s":60.0,"offered_per_s":5.0,"achieved_per_s":5.0,"requests":{"scheduled":300,"completed":300,"failed":0,"unfinished":0},"ttft_ms":{"mean":{"value":200.99999999999997,"n":300,"low":null,"high":null},"p50":{"value":200.99999999999997,"n":300,"low":null,"high":null},"p90":{"value":361.79999999999995,"n":300,"low":null,"high":null},"p95":{"value":401.99999999999994,"n":300,"low":null,"high":null},"p99":{"value":522.5999999999999,"n":300,"low":null,"high":null},"max":{"value":803.9999999999999,"n":300,"low":null,"high":null},"censored":0},"tpot_ms":{"mean":{"value":20.0,"n":300,"low":null,"high":null},"p50":{"value":20.0,"n":300,"low":null,"high":null},"p90":{"value":36.0,"n":300,"low":null,"high":null},"p95":{"value":40.0,"n":300,"low":null,"high":null},"p99":{"value":52.0,"n":300,"low":null,"high":null},"max":{"value":80.0,"n":300,"low":null,"high":null},"censored":0},"itl_ms":{"mean":{"value":20.0,"n":300,"low":null,"high":null},"p50":{"value":20.0,"n":300,"low":null,"high":null},"p90":{"value":36.0,"n":300,"low":null,"high":null},"p95":{"value":40.0,"n":300,"low":null,"high":null},"p99":{"value":52.0,"n":300,"low":null,"high":null},"max":{"value":80.0,"n":300,"low":null,"high":null},"censored":0},"e2e_ms":{"mean":{"value":2000.0,"n":300,"low":null,"high":null},"p50":{"value":2000.0,"n":300,"low":null,"high":null},"p90":{"value":3600.0,"n":300,"low":null,"high":null},"p95":{"value":4000.0,"n":300,"low":null,"high":null},"p99":{"value":5200.0,"n":300,"low":null,"high":null},"max":{"value":8000.0,"n":300,"low":null,"high":null},"censored":0},"output_tokens_per_s":{"value":800.0,"n":300,"low":null,"high":null},"slo_attainment":null,"goodput_per_s":null,"preemptions":0,"kv_usage_peak":0.6,"running_peak":20.0,"waiting_peak":2.0,"gpu_utilization":null,"by_prompt_length":[],"prefix":null},"capacity":{"window_s":30.0,"concurrency":64,"requests":{"scheduled":200,"completed":200,"failed":0,"unfinished":64},"output_tokens_per_s":{"value":200.0,"n":200,"low":null,"high":null},"requests_per_s":{"value":6.0,"n":200,"low":null,"high":null},"preemptions":0,"kv_usage_peak":0.9,"running_peak":64.0,"waiting_peak":10.0,"gpu_utilization":null,"steady":null},"instrument":{"valid":true,"reasons":[],"send_lag_p50_ms":0.1,"send_lag_p99_ms":0.5,"client_cpu_share":0.2,"loop_stall_max_ms":1.0,"clock":"monotonic","client_output_tokens":null,"server_output_tokens":null,"prefix_hit_rate":null},"engine":{"version":"0.33.0","kv_cache_tokens":40000,"max_concurrency":null,"weights_gib":null,"kv_cache_gib":null,"graph_gib":null,"startup_s":null,"max_num_seqs":null,"max_num_batched_tokens":null,"chunked_prefill":null,"gpu_memory_utilization":null,"simulated":true},"workload_digest":"0123456789abcdef","workload_seed":166801239,"simulated":true,"time_scale":1.0,"notes":[]}', true, '2026-11-30 20:15:25.454475+00');
INSERT INTO public.servetune_studies VALUES (1, 'chat', 1, '841631e296e51b7f4ad53db9939a4ebdff769e0efd39f81df2e3776814460a0b', '{"name":"chat","model":{"id":"Qwen/Qwen2.5-7B-Instruct","path":null,"revision":null,"max_model_len":4096},"engine":{"kind":"simulated","gpu":"L4","count":1,"time_scale":20.0,"hardware_seed":3,"flags":{},"env":{}},"search_space":{"max_num_seqs":{"low":8,"high":64},"max_num_batched_tokens":{"low":512,"high":4096},"enable_chunked_prefill":{"choices":[true,false]},"gpu_memory_utilization":{"low":0.9,"high":0.95}},"baseline":{"flags":{"max-num-seqs":2}},"workload":{"preset":null,"trace":null,"lengths":{"prompt_tokens":{"type":"constant","value":600},"output_tokens":{"type":"constant","value":20}},"arrival":{"process":"poisson","rate":null},"warmup_s":2.0,"latency_window_s":12.0,"capacity_window_s":10.0,"seed":0},"objective":{"weights":{"ttft_p95":1.0,"tpot_p95":1.0,"throughput":1.0,"itl_p99":0.0},"latency_percentile":null,"preemption_penalty":0.5,"slo":null,"mode":"weighted"},"budget":{"trials":2,"gpu_minutes":null,"deadline":null,"early_abort":true},"sampler":{"type":"tpe","seed":0},"first_points":{"preset":true,"engine_model":false,"space_filling":true},"stopping":{"enabled":false,"min_trials":12,"patience":6,"min_gain_percent":1.0},"confirmation":{"finalists":1,"rounds":2,"max_rounds":2},"deadlines":{"startup_s":900.0,"stop_grace_s":30.0,"stall_s":60.0,"attempt_s":3600.0},"executor":{"type":"local"}}', 'complete', 'done', 'chat@1', '{"sequences":[8,64],"tokens":[512,4096],"chunked":[true,false],"utilization":[0.9,0.95],"max_model_len":4096,"ceiling":{"log2_sequences":[3.0,3.25,3.5,3.75,4.0,4.25,4.5,4.75,5.0,5.25,5.5,5.75,6.0],"log2_tokens":[9.0,9.25,9.5,9.75,10.0,10.25,10.5,10.75,11.0,11.25,11.5,11.75,12.0],"utilization":[[0.9733869726007633,0.9732711713964288,0.9731338813088157,0.9729703270305287,0.9727757332541725,0.9725441308455033,0.972269550670277,0.9719424421137028,0.9715532545609907,0.9710912435705011,0.9705408893931995,0.9698866722800514,0.969108297174627],[0.9733637983148747,0.9732479971105402,0.973110707022927,0.9729471527446399,0.9727525589682838,0.9725209565596146,0.9722463763843883,0.9719192678278141,0.971530080275102,0.9710680692846124,0.9705177151073109,0.9698634979941627,0.9690851228887385],[0.9733522111719304,0.9732364099675959,0.9730991198799827,0.9729355656016956,0.9727409718253395,0.9725093694166703,0.9722347892414439,0.97190768068487,0.9715184931321577,0.971056482141668,0.9705061279643665,0.9698519108512184,0.9690735357457941],[0.9733290368860417,0.9732132356817071,0.9730759455940938,0.9729123913158069,0.9727177975394508,0.9724861951307816,0.9722116149555553,0.9718845063989812,0.971495318846269,0.9710333078557795,0.9704829536784778,0.9698287365653296,0.9690503614599053],[0.9732942754572087,0.9731784742528741,0.973041184165261,0.9728776298869739,0.9726830361106178,0.9724514337019485,0.9721768535267222,0.9718497449701481,0.971460557417436,0.9709985464269463,0.9704481922496447,0.9697939751364967,0.9690156000310722],[0.9732595140283756,0.9731437128240411,0.9730064227364278,0.9728428684581408,0.9726482746817847,0.9724166722731156,0.972142092097889,0.9718149835413151,0.9714257959886029,0.9709637849981134,0.9704134308208118,0.9697592137076636,0.9689808386022393],[0.9732131654565985,0.9730973642522638,0.9729600741646507,0.9727965198863636,0.9726019261100075,0.9723703237013382,0.9720957435261119,0.9717686349695378,0.9713794474168257,0.9709174364263361,0.9703670822490345,0.9697128651358864,0.968934490030462],[0.973166816884821,0.9730510156804865,0.9729137255928734,0.9727501713145863,0.9725555775382303,0.9723239751295609,0.9720493949543346,0.9717222863977605,0.9713330988450484,0.9708710878545588,0.9703207336772571,0.9696665165641091,0.9688881414586846],[0.9731088811700993,0.9729930799657648,0.9728557898781515,0.9726922355998645,0.9724976418235084,0.9722660394148392,0.9719914592396127,0.9716643506830388,0.9712751631303266,0.9708131521398369,0.9702627979625355,0.9696085808493873,0.968830205743963],[0.9730393583124335,0.9729235571080989,0.9727862670204857,0.9726227127421986,0.9724281189658425,0.9721965165571732,0.9719219363819469,0.9715948278253728,0.9712056402726607,0.9707436292821711,0.9701932751048695,0.9695390579917214,0.9687606828862971],[0.972958248311823,0.9728424471074885,0.9727051570198753,0.9725416027415882,0.9723470089652321,0.9721154065565628,0.9718408263813365,0.9715137178247624,0.9711245302720503,0.9706625192815607,0.9701121651042591,0.969457947991111,0.9686795728856867],[0.9728539640253239,0.9727381628209893,0.972600872733376,0.9724373184550892,0.972242724678733,0.9720111222700638,0.9717365420948375,0.9714094335382634,0.9710202459855513,0.9705582349950617,0.97000788081776,0.969353663704612,0.9685752885991875],[0.9727380925958807,0.972622291391546,0.9724850013039329,0.9723214470256458,0.9721268532492897,0.9718952508406205,0.9716206706653941,0.97129356210882,0.9709043745561079,0.9704423635656183,0.9698920093883167,0.9692377922751686,0.9684594171697442]],"margin":0.01},"notices":[],"floor":{"log2_sequences":[3.0,3.25,3.5,3.75,4.0,4.25,4.5,4.75,5.0,5.25,5.5,5.75,6.0],"log2_tokens":[9.0,9.25,9.5,9.75,10.0,10.25,10.5,10.75,11.0,11.25,11.5,11.75,12.0],"utilization":[[0.6799565679376776,0.6805999079617586,0.6813626306707209,0.6822712655500932,0.6833523420854047,0.6846390221335671,0.6861644675514914,0.6879817373102362,0.6901438903808593,0.6927106181058016,0.6957681413130327,0.6994026808305219,0.7037269869717684],[0.6800853139703924,0.6807286539944735,0.6814913767034357,0.682400011582808,0.6834810881181196,0.6847677681662819,0.6862932135842063,0.688110483342951,0.6902726364135742,0.6928393641385164,0.6958968873457475,0.6995314268632368,0.7038557330044832],[0.6801496869867498,0.6807930270108309,0.6815557497197932,0.6824643845991655,0.683545461134477,0.6848321411826394,0.6863575866005637,0.6881748563593084,0.6903370094299316,0.6929037371548739,0.6959612603621049,0.6995957998795942,0.7039201060208407],[0.6804574102921919,0.681100750316273,0.6818634730252352,0.6827721079046075,0.6838531844399192,0.6851398644880814,0.6866653099060058,0.6884825796647505,0.6906447327353736,0.693211460460316,0.696268983667547,0.6999035231850363,0.7042278293262828],[0.6808295066139914,0.6814728466380726,0.6822355693470348,0.6831442042264071,0.6842252807617187,0.685511960809881,0.6870374062278054,0.68885467598655,0.6910168290571733,0.6935835567821156,0.6966410799893465,0.7002756195068359,0.7045999256480824],[0.6810226256630637,0.6816659656871449,0.682428688396107,0.6833373232754794,0.684418399810791,0.6857050798589532,0.6872305252768777,0.6890477950356223,0.6912099481062456,0.6937766758311879,0.6968341990384188,0.7004687385559082,0.7047930446971546],[0.6814590950012207,0.6821024350253019,0.682865157734264,0.6837737926136364,0.684854869148948,0.6861415491971102,0.6876669946150347,0.6894842643737793,0.6916464174444026,0.6942131451693448,0.6972706683765758,0.7009052078940652,0.7052295140353116],[0.6818955643393777,0.6825389043634588,0.6833016270724209,0.6842102619517934,0.6852913384871049,0.6865780185352672,0.6881034639531916,0.6899207337119363,0.6920828867825595,0.6946496145075017,0.6977071377147328,0.7013416772322221,0.7056659833734685],[0.6825753839666192,0.6832187239907004,0.6839814466996625,0.6848900815790349,0.6859711581143465,0.6872578381625088,0.6887832835804332,0.6906005533391778,0.6927627064098011,0.6953294341347434,0.6983869573419743,0.7020214968594637,0.7063458030007101],[0.683140599337491,0.6837839393615722,0.6845466620705344,0.6854552969499067,0.6865363734852183,0.6878230535333807,0.689348498951305,0.6911657687100496,0.6933279217806729,0.6958946495056152,0.6989521727128462,0.7025867122303355,0.706911018371582],[0.6839491649974476,0.6845925050215288,0.685355227730491,0.6862638626098633,0.6873449391451749,0.6886316191933372,0.6901570646112615,0.6919743343700062,0.6941364874406294,0.6967032151655718,0.6997607383728027,0.7033952778902921,0.7077195840315386],[0.6848864766901189,0.6855298167142,0.6862925394231622,0.6872011743025346,0.6882822508378461,0.6895689308860085,0.6910943763039328,0.6929116460626775,0.6950737991333007,0.697640526858243,0.700698050065474,0.7043325895829633,0.7086568957242098],[0.686067138671875,0.6867104786959561,0.6874732014049183,0.6883818362842906,0.6894629128196023,0.6907495928677645,0.6922750382856889,0.6940923080444336,0.6962544611150568,0.6988211888399991,0.7018787120472301,0.7055132515647194,0.7098375577059659]],"margin":-0.01},"headroom_span":0.08,"headroom_power":2.0}', '{"format":2,"rate_per_s":8.0,"concurrency":32,"source":"calibrated","capacity_per_s":10.0,"knee_per_s":null,"power":null,"capacity_warmup_s":null,"rungs":[],"steps":[],"engine_s":null,"statement":null,"warning":null}', '{"verdict":"better","headline":"Trial 1 is better than the baseline by 176.8\u2013263.3 %.","reason":"The baseline, saturated, was bound by the cap on sequences: 64 of at most 2 sequences running, 10 waiting, KV cache 90% full. Changed: gpu-memory-utilization 0.92 (default) \u2192 0.95, max-num-seqs 2 \u2192 64. Measured: TTFT p95 401.4 \u2192 402.8 ms (+0.3 %), TPOT p95 40 \u2192 40 ms (+0.0 %), throughput 200 \u2192 6400 tokens/s (+3100.0 %). The improvement is the weighted mean of latencies and throughput on a log scale, over 2 paired rounds of fresh starts (90% interval 176.8\u2013263.3 %).","trial":1,"flags":{"enable-chunked-prefill":true,"gpu-memory-utilization":0.95,"max-model-len":4096,"max-num-batched-tokens":2048,"max-num-seqs":64},"reference_trial":0,"reference_is_baseline":true,"gain":{"score_mean":1.1540850111484424,"score_low":1.0182133276671221,"score_high":1.2899566946297627,"percent_mean":217.11205497343383,"percent_low":176.82443972643304,"percent_high":263.2629239992352,"rounds":2,"level":0.9,"round_spread":0.08164976759653308},"metrics":[{"name":"TTFT p95","unit":"ms","before":401.39955156925623,"after":402.7992055602888,"change_percent":0.3486934615548609,"change_low_percent":-12.400270145356496,"change_high_percent":14.953097414230571},{"name":"TPOT p95","unit":"ms","before":40.0,"after":40.0,"change_percent":0.0,"change_low_percent":-12.704520112491299,"change_high_percent":14.55346843715469},{"name":"throughput","unit":"tokens/s","before":199.99999999999991,"after":6399.9999999999945,"change_percent":3099.9999999999986,"change_low_percent":2693.455356400279,"change_high_percent":3565.710989988949}],"changes":[{"flag":"gpu-memory-utilization","before":0.92,"after":0.95,"before_is_default":true,"after_is_default":false},{"flag":"max-num-seqs","before":2,"after":64,"before_is_default":false,"after_is_default":false}],"finalists":[{"trial":1,"gain":{"score_mean":1.1540850111484424,"score_low":1.0182133276671221,"score_high":1.2899566946297627,"percent_mean":217.11205497343383,"percent_low":176.82443972643304,"percent_high":263.2629239992352,"rounds":2,"level":0.9,"round_spread":0.08164976759653308},"failure":null,"weaknesses":[]}],"noise":{"sd":0.005,"within_run":null,"between_starts":0.0003323364482420293,"starts":3,"floor":0.005},"picks":[{"name":"lowest TTFT","trial_number":2,"ttft_ms":401.19999999999993,"tpot_ms":40.0,"output_tokens_per_s":1200.0,"score":0.5972530459618643},{"name":"lowest TPOT","trial_number":1,"ttft_ms":402.4,"tpot_ms":40.0,"output_tokens_per_s":6400.0,"score":1.154249669586505},{"name":"highest throughput","trial_number":1,"ttft_ms":402.4,"tpot_ms":40.0,"output_tokens_per_s":6400.0,"score":1.154249669586505}],"simulated":true}', NULL, '[{"kind":"baseline_outside_space","message":"The baseline lies outside the search space (max-num-seqs 2 is not within 8 to 64); it is measured and compared with, but the sampler learns nothing from it."},{"kind":"search_ended","message":"2 trials are done"},{"kind":"noise","message":"Noise of one score: 0.5 % (standard deviation; 3 fresh starts of the baseline differ by 0.0 %).","noise":{"sd":0.005,"within_run":null,"between_starts":0.0003323364482420293,"starts":3,"floor":0.005}}]', 82, '2026-11-30 20:15:20.762736+00', '2026-11-30 20:15:25.587678+00', '2026-11-30 20:15:21.185649+00', '2026-11-30 20:15:25.584869+00');
INSERT INTO public.servetune_studies VALUES (2, 'waiting', 1, 'a4148623794a5932d54d1e7f831df9f65af19c80569262e716407b92c5294840', '{"name":"waiting","model":{"id":"Qwen/Qwen2.5-7B-Instruct","path":null,"revision":null,"max_model_len":4096},"engine":{"kind":"simulated","gpu":"L4","count":1,"time_scale":20.0,"hardware_seed":3,"flags":{},"env":{}},"search_space":{"max_num_seqs":{"low":8,"high":64},"max_num_batched_tokens":{"low":512,"high":4096},"enable_chunked_prefill":{"choices":[true,false]},"gpu_memory_utilization":{"low":0.9,"high":0.95}},"baseline":{"flags":{"max-num-seqs":2}},"workload":{"preset":null,"trace":null,"lengths":{"prompt_tokens":{"type":"constant","value":600},"output_tokens":{"type":"constant","value":20}},"arrival":{"process":"poisson","rate":null},"warmup_s":2.0,"latency_window_s":12.0,"capacity_window_s":10.0,"seed":0},"objective":{"weights":{"ttft_p95":1.0,"tpot_p95":1.0,"throughput":1.0,"itl_p99":0.0},"latency_percentile":null,"preemption_penalty":0.5,"slo":null,"mode":"weighted"},"budget":{"trials":2,"gpu_minutes":null,"deadline":null,"early_abort":true},"sampler":{"type":"tpe","seed":0},"first_points":{"preset":true,"engine_model":false,"space_filling":true},"stopping":{"enabled":false,"min_trials":12,"patience":6,"min_gain_percent":1.0},"confirmation":{"finalists":1,"rounds":2,"max_rounds":2},"deadlines":{"startup_s":900.0,"stop_grace_s":30.0,"stall_s":60.0,"attempt_s":3600.0},"executor":{"type":"local"}}', 'queued', 'baseline', 'waiting@1', NULL, NULL, NULL, NULL, '[]', 2, '2026-11-30 20:15:25.645587+00', '2026-11-30 20:15:25.654399+00', NULL, NULL);
INSERT INTO public.servetune_trials VALUES (1, 1, 0, NULL, 'baseline', NULL, '{"max-model-len":4096,"max-num-seqs":2}', 'e033828ebf0911a1', 'complete', NULL, NULL, '{"value":0.0,"terms":[{"metric":"ttft_p95","weight":0.3333333333333333,"baseline":401.1998670654261,"value":401.1998670654261,"improvement":1.0,"contribution":0.0},{"metric":"tpot_p95","weight":0.3333333333333333,"baseline":40.0,"value":40.0,"improvement":1.0,"contribution":0.0},{"metric":"throughput","weight":0.3333333333333333,"baseline":199.99999999999991,"value":199.99999999999991,"improvement":1.0,"contribution":0.0}],"penalty":0.0,"missing":[],"low":null,"high":null}', NULL, '2026-11-30 20:15:21.222529+00', '2026-11-30 20:15:21.264353+00', '2026-11-30 20:15:21.566717+00');
INSERT INTO public.servetune_trials VALUES (2, 1, 1, 0, 'preset', '{"log2_max_num_seqs":6.0,"token_budget":0.6666666666666666,"enable_chunked_prefill":true,"memory_headroom":0.0}', '{"enable-chunked-prefill":true,"gpu-memory-utilization":0.95,"max-model-len":4096,"max-num-batched-tokens":2048,"max-num-seqs":64}', '0f862a62c130ff98', 'complete', NULL, NULL, '{"value":1.154249669586505,"terms":[{"metric":"ttft_p95","weight":0.3333333333333333,"baseline":401.1998670654261,"value":402.4,"improvement":0.9970175622898263,"contribution":-0.0009956313467371334},{"metric":"tpot_p95","weight":0.3333333333333333,"baseline":40.0,"value":40.0,"improvement":1.0,"contribution":0.0},{"metric":"throughput","weight":0.3333333333333333,"baseline":199.99999999999991,"value":6400.0,"improvement":32.000000000000014,"contribution":1.1552453009332422}],"penalty":0.0,"missing":[],"low":null,"high":null}', NULL, '2026-11-30 20:15:22.120736+00', '2026-11-30 20:15:22.162994+00', '2026-11-30 20:15:22.494575+00');
INSERT INTO public.servetune_trials VALUES (3, 1, 2, 1, 'space_filling', '{"log2_max_num_seqs":3.5805708914995193,"token_budget":0.9928648034110665,"enable_chunked_prefill":false,"memory_headroom":0.9961617896333337}', '{"enable-chunked-prefill":false,"gpu-memory-utilization":0.9,"max-model-len":4096,"max-num-batched-tokens":4096,"max-num-seqs":12}', '2851bb96d6ac408d', 'complete', NULL, NULL, '{"value":0.5972530459618643,"terms":[{"metric":"ttft_p95","weight":0.3333333333333333,"baseline":401.1998670654261,"value":401.19999999999993,"improvement":0.9999996686575926,"contribution":-1.104474874314e-07},{"metric":"tpot_p95","weight":0.3333333333333333,"baseline":40.0,"value":40.0,"improvement":1.0,"contribution":0.0},{"metric":"throughput","weight":0.3333333333333333,"baseline":199.99999999999991,"value":1200.0,"improvement":6.000000000000003,"contribution":0.5972531564093517}],"penalty":0.0,"missing":[],"low":null,"high":null}', NULL, '2026-11-30 20:15:23.401452+00', '2026-11-30 20:15:23.46256+00', '2026-11-30 20:15:23.828712+00');
INSERT INTO public.studies VALUES (1, 'chat@1');
INSERT INTO public.study_directions VALUES (1, 'MAXIMIZE', 1, 0);
INSERT INTO public.trial_params VALUES (1, 1, 'log2_max_num_seqs', 6, '{"name": "FloatDistribution", "attributes": {"step": null, "low": 3.0, "high": 6.0, "log": false}}');
INSERT INTO public.trial_params VALUES (2, 1, 'token_budget', 0.6666666666666666, '{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0, "high": 1.0, "log": false}}');
INSERT INTO public.trial_params VALUES (3, 1, 'enable_chunked_prefill', 0, '{"name": "CategoricalDistribution", "attributes": {"choices": [true, false]}}');
INSERT INTO public.trial_params VALUES (4, 1, 'memory_headroom', 0, '{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0, "high": 1.0, "log": false}}');
INSERT INTO public.trial_params VALUES (5, 2, 'log2_max_num_seqs', 3.5805708914995193, '{"name": "FloatDistribution", "attributes": {"step": null, "low": 3.0, "high": 6.0, "log": false}}');
INSERT INTO public.trial_params VALUES (6, 2, 'token_budget', 0.9928648034110665, '{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0, "high": 1.0, "log": false}}');
INSERT INTO public.trial_params VALUES (7, 2, 'enable_chunked_prefill', 1, '{"name": "CategoricalDistribution", "attributes": {"choices": [true, false]}}');
INSERT INTO public.trial_params VALUES (8, 2, 'memory_headroom', 0.9961617896333337, '{"name": "FloatDistribution", "attributes": {"step": null, "low": 0.0, "high": 1.0, "log": false}}');
INSERT INTO public.trial_system_attributes VALUES (1, 1, 'fixed_params', '{"log2_max_num_seqs": 6.0, "token_budget": 0.6666666666666666, "enable_chunked_prefill": true, "memory_headroom": 0.0}');
INSERT INTO public.trial_system_attributes VALUES (2, 2, 'fixed_params', '{"log2_max_num_seqs": 3.5805708914995193, "token_budget": 0.9928648034110665, "enable_chunked_prefill": false, "memory_headroom": 0.9961617896333337}');
INSERT INTO public.trial_system_attributes VALUES (3, 1, 'constraints:engine_runs', '-1.0');
INSERT INTO public.trial_system_attributes VALUES (4, 1, 'constraints:fits_memory', '-1.0');
INSERT INTO public.trial_system_attributes VALUES (5, 1, 'constraints:kv_cache_suffices', '-1.0');
INSERT INTO public.trial_system_attributes VALUES (6, 2, 'constraints:engine_runs', '-1.0');
INSERT INTO public.trial_system_attributes VALUES (7, 2, 'constraints:fits_memory', '-1.0');
INSERT INTO public.trial_system_attributes VALUES (8, 2, 'constraints:kv_cache_suffices', '-1.0');
INSERT INTO public.trial_user_attributes VALUES (1, 1, 'servetune:origin', '"preset"');
INSERT INTO public.trial_user_attributes VALUES (2, 1, 'servetune:config_digest', '"0f862a62c130ff98"');
INSERT INTO public.trial_user_attributes VALUES (7, 1, 'servetune:told_as', '"measured"');
INSERT INTO public.trial_user_attributes VALUES (3, 2, 'servetune:origin', '"space_filling"');
INSERT INTO public.trial_user_attributes VALUES (4, 2, 'servetune:config_digest', '"2851bb96d6ac408d"');
INSERT INTO public.trial_user_attributes VALUES (10, 2, 'servetune:told_as', '"measured"');
INSERT INTO public.trial_values VALUES (1, 1, 0, 1.1542497800339926, 'FINITE');
INSERT INTO public.trial_values VALUES (2, 2, 0, 0.5972531564093516, 'FINITE');
INSERT INTO public.trials VALUES (1, 0, 1, 'COMPLETE', '2026-11-30 20:15:21.985134', '2026-11-30 20:15:22.814695');
INSERT INTO public.trials VALUES (2, 1, 1, 'COMPLETE', '2026-11-30 20:15:23.279403', '2026-11-30 20:15:24.012884');
INSERT INTO public.version_info VALUES (1, 12, '5.0.0');
SELECT pg_catalog.setval('public.servetune_attempts_id_seq', 9, true);
SELECT pg_catalog.setval('public.servetune_studies_id_seq', 2, true);
SELECT pg_catalog.setval('public.servetune_trials_id_seq', 3, true);
SELECT pg_catalog.setval('public.studies_study_id_seq', 1, true);
SELECT pg_catalog.setval('public.study_directions_study_direction_id_seq', 1, true);
SELECT pg_catalog.setval('public.study_system_attributes_study_system_attribute_id_seq', 1, false);
SELECT pg_catalog.setval('public.study_user_attributes_study_user_attribute_id_seq', 1, false);
SELECT pg_catalog.setval('public.trial_heartbeats_trial_heartbeat_id_seq', 1, false);
SELECT pg_catalog.setval('public.trial_intermediate_values_trial_intermediate_value_id_seq', 1, false);
SELECT pg_catalog.setval('public.trial_params_param_id_seq', 8, true);
SELECT pg_catalog.setval('public.trial_system_attributes_trial_system_attribute_id_seq', 8, true);
SELECT pg_catalog.setval('public.trial_user_attributes_trial_user_attribute_id_seq', 10, true);
SELECT pg_catalog.setval('public.trial_values_trial_value_id_seq', 2, true);
SELECT pg_catalog.setval('public.trials_trial_id_seq', 2, true);
ALTER TABLE ONLY public.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY public.servetune_attempts
    ADD CONSTRAINT pk_servetune_attempts PRIMARY KEY (id);
ALTER TABLE ONLY public.servetune_events
    ADD CONSTRAINT pk_servetune_events PRIMARY KEY (study_id, seq);
ALTER TABLE ONLY public.servetune_measurements
    ADD CONSTRAINT pk_servetune_measurements PRIMARY KEY (attempt_id);
ALTER TABLE ONLY public.servetune_studies
    ADD CONSTRAINT pk_servetune_studies PRIMARY KEY (id);
ALTER TABLE ONLY public.servetune_trials
    ADD CONSTRAINT pk_servetune_trials PRIMARY KEY (id);
ALTER TABLE ONLY public.servetune_alembic_version
    ADD CONSTRAINT servetune_alembic_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY public.studies
    ADD CONSTRAINT studies_pkey PRIMARY KEY (study_id);
ALTER TABLE ONLY public.study_directions
    ADD CONSTRAINT study_directions_pkey PRIMARY KEY (study_direction_id);
ALTER TABLE ONLY public.study_directions
    ADD CONSTRAINT study_directions_study_id_objective_key UNIQUE (study_id, objective);
ALTER TABLE ONLY public.study_system_attributes
    ADD CONSTRAINT study_system_attributes_pkey PRIMARY KEY (study_system_attribute_id);
ALTER TABLE ONLY public.study_system_attributes
    ADD CONSTRAINT study_system_attributes_study_id_key_key UNIQUE (study_id, key);
ALTER TABLE ONLY public.study_user_attributes
    ADD CONSTRAINT study_user_attributes_pkey PRIMARY KEY (study_user_attribute_id);
ALTER TABLE ONLY public.study_user_attributes
    ADD CONSTRAINT study_user_attributes_study_id_key_key UNIQUE (study_id, key);
ALTER TABLE ONLY public.trial_heartbeats
    ADD CONSTRAINT trial_heartbeats_pkey PRIMARY KEY (trial_heartbeat_id);
ALTER TABLE ONLY public.trial_heartbeats
    ADD CONSTRAINT trial_heartbeats_trial_id_key UNIQUE (trial_id);
ALTER TABLE ONLY public.trial_intermediate_values
    ADD CONSTRAINT trial_intermediate_values_pkey PRIMARY KEY (trial_intermediate_value_id);
ALTER TABLE ONLY public.trial_intermediate_values
    ADD CONSTRAINT trial_intermediate_values_trial_id_step_key UNIQUE (trial_id, step);
ALTER TABLE ONLY public.trial_params
    ADD CONSTRAINT trial_params_pkey PRIMARY KEY (param_id);
ALTER TABLE ONLY public.trial_params
    ADD CONSTRAINT trial_params_trial_id_param_name_key UNIQUE (trial_id, param_name);
ALTER TABLE ONLY public.trial_system_attributes
    ADD CONSTRAINT trial_system_attributes_pkey PRIMARY KEY (trial_system_attribute_id);
ALTER TABLE ONLY public.trial_system_attributes
    ADD CONSTRAINT trial_system_attributes_trial_id_key_key UNIQUE (trial_id, key);
ALTER TABLE ONLY public.trial_user_attributes
    ADD CONSTRAINT trial_user_attributes_pkey PRIMARY KEY (trial_user_attribute_id);
ALTER TABLE ONLY public.trial_user_attributes
    ADD CONSTRAINT trial_user_attributes_trial_id_key_key UNIQUE (trial_id, key);
ALTER TABLE ONLY public.trial_values
    ADD CONSTRAINT trial_values_pkey PRIMARY KEY (trial_value_id);
ALTER TABLE ONLY public.trial_values
    ADD CONSTRAINT trial_values_trial_id_objective_key UNIQUE (trial_id, objective);
ALTER TABLE ONLY public.trials
    ADD CONSTRAINT trials_pkey PRIMARY KEY (trial_id);
ALTER TABLE ONLY public.servetune_attempts
    ADD CONSTRAINT uq_servetune_attempts_trial_id_ordinal UNIQUE (trial_id, ordinal);
ALTER TABLE ONLY public.servetune_studies
    ADD CONSTRAINT uq_servetune_studies_name_generation UNIQUE (name, generation);
ALTER TABLE ONLY public.servetune_studies
    ADD CONSTRAINT uq_servetune_studies_optuna_study_name UNIQUE (optuna_study_name);
ALTER TABLE ONLY public.servetune_trials
    ADD CONSTRAINT uq_servetune_trials_study_id_number UNIQUE (study_id, number);
ALTER TABLE ONLY public.servetune_trials
    ADD CONSTRAINT uq_servetune_trials_study_id_optuna_number UNIQUE (study_id, optuna_number);
ALTER TABLE ONLY public.version_info
    ADD CONSTRAINT version_info_pkey PRIMARY KEY (version_info_id);
CREATE INDEX ix_servetune_attempts_outcome ON public.servetune_attempts USING btree (outcome);
CREATE INDEX ix_servetune_studies_name_digest ON public.servetune_studies USING btree (name, digest);
CREATE INDEX ix_servetune_studies_state ON public.servetune_studies USING btree (state);
CREATE INDEX ix_servetune_trials_study_id_config_digest ON public.servetune_trials USING btree (study_id, config_digest);
CREATE UNIQUE INDEX ix_studies_study_name ON public.studies USING btree (study_name);
CREATE INDEX ix_trials_study_id ON public.trials USING btree (study_id);
ALTER TABLE ONLY public.servetune_attempts
    ADD CONSTRAINT fk_servetune_attempts_trial_id FOREIGN KEY (trial_id) REFERENCES public.servetune_trials(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.servetune_events
    ADD CONSTRAINT fk_servetune_events_study_id FOREIGN KEY (study_id) REFERENCES public.servetune_studies(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.servetune_measurements
    ADD CONSTRAINT fk_servetune_measurements_attempt_id FOREIGN KEY (attempt_id) REFERENCES public.servetune_attempts(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.servetune_trials
    ADD CONSTRAINT fk_servetune_trials_study_id FOREIGN KEY (study_id) REFERENCES public.servetune_studies(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.study_directions
    ADD CONSTRAINT study_directions_study_id_fkey FOREIGN KEY (study_id) REFERENCES public.studies(study_id);
ALTER TABLE ONLY public.study_system_attributes
    ADD CONSTRAINT study_system_attributes_study_id_fkey FOREIGN KEY (study_id) REFERENCES public.studies(study_id);
ALTER TABLE ONLY public.study_user_attributes
    ADD CONSTRAINT study_user_attributes_study_id_fkey FOREIGN KEY (study_id) REFERENCES public.studies(study_id);
ALTER TABLE ONLY public.trial_heartbeats
    ADD CONSTRAINT trial_heartbeats_trial_id_fkey FOREIGN KEY (trial_id) REFERENCES public.trials(trial_id);
ALTER TABLE ONLY public.trial_intermediate_values
    ADD CONSTRAINT trial_intermediate_values_trial_id_fkey FOREIGN KEY (trial_id) REFERENCES public.trials(trial_id);
ALTER TABLE ONLY public.trial_params
    ADD CONSTRAINT trial_params_trial_id_fkey FOREIGN KEY (trial_id) REFERENCES public.trials(trial_id);
ALTER TABLE ONLY public.trial_system_attributes
    ADD CONSTRAINT trial_system_attributes_trial_id_fkey FOREIGN KEY (trial_id) REFERENCES public.trials(trial_id);
ALTER TABLE ONLY public.trial_user_attributes
    ADD CONSTRAINT trial_user_attributes_trial_id_fkey FOREIGN KEY (trial_id) REFERENCES public.trials(trial_id);
ALTER TABLE ONLY public.trial_values
    ADD CONSTRAINT trial_values_trial_id_fkey FOREIGN KEY (trial_id) REFERENCES public.trials(trial_id);
ALTER TABLE ONLY public.trials
    ADD CONSTRAINT trials_study_id_fkey FOREIGN KEY (study_id) REFERENCES public.studies(study_id);
