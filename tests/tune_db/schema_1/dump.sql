BEGIN TRANSACTION;
CREATE TABLE qconv_measurement (
	id INTEGER NOT NULL, 
	problem TEXT NOT NULL, 
	config TEXT NOT NULL, 
	device TEXT NOT NULL, 
	target TEXT NOT NULL, 
	toolchain TEXT NOT NULL, 
	digest TEXT NOT NULL, 
	outcome TEXT NOT NULL, 
	reason TEXT, 
	times_us TEXT NOT NULL, 
	median_us DOUBLE, 
	registers INTEGER, 
	spill_bytes INTEGER, 
	smem_bytes INTEGER, 
	compile_ms DOUBLE, 
	protocol TEXT, 
	created_at TEXT NOT NULL, 
	PRIMARY KEY (id), 
	UNIQUE (problem, config, device, target, toolchain, digest)
);
INSERT INTO "qconv_measurement" VALUES(1,'conv2d:n=1:h=14:w=14:c=64:k=64:r=3:s=3:pad=1,1,1,1:x_type=int8:w_type=int8:out_type=int8','{"family":"simt","tile_m":16,"tile_n":4,"tile_k":16,"thread_m":1,"thread_n":1,"pipeline_stages":1}','NVIDIA H200','sm_90a','nvrtc 13.0','d1','correct',NULL,'[11.0, 10.1, 10.3]',10.3,40,0,8704,812.5,'{"name": "events", "repeats": 3}','2026-01-02T03:04:05.678901+00:00');
INSERT INTO "qconv_measurement" VALUES(2,'conv2d:n=1:h=14:w=14:c=64:k=64:r=3:s=3:pad=1,1,1,1:x_type=int8:w_type=int8:out_type=int8','{"family":"simt","tile_m":16,"tile_n":4,"tile_k":16,"thread_m":1,"thread_n":1,"pipeline_stages":2}','NVIDIA H200','sm_90a','nvrtc 13.0','d1','correct',NULL,'[0.30000000000000004, 0.3333333333333333, 0.001]',3.00000000000000044408e-01,40,0,8704,812.5,'{"name": "events", "repeats": 3}','2026-01-02T03:04:05.678901+00:00');
INSERT INTO "qconv_measurement" VALUES(3,'conv2d:n=1:h=14:w=14:c=64:k=64:r=3:s=3:pad=1,1,1,1:x_type=int8:w_type=int8:out_type=int8','{"family":"simt","tile_m":16,"tile_n":4,"tile_k":16,"thread_m":1,"thread_n":2,"pipeline_stages":1}','NVIDIA H200','sm_90a','nvrtc 13.0','d1','compile','line 3: ''quoted'' ☃
  line 4','[]',NULL,NULL,NULL,NULL,3.5,NULL,'2026-01-02T03:04:05.678901+00:00');
INSERT INTO "qconv_measurement" VALUES(4,'conv2d:n=8:h=28:w=28:c=128:k=256:r=1:s=1:x_type=int8:w_type=int8:out_type=int8','{"family":"simt","tile_m":16,"tile_n":4,"tile_k":16,"thread_m":1,"thread_n":2,"pipeline_stages":2}','NVIDIA H200','sm_90a','nvrtc 13.0','d1','correct',NULL,'[1.0]',1.0,40,0,8704,812.5,'{"name": "events", "repeats": 1, "stage": "screened"}','2026-01-02T03:04:05.678901+00:00');
INSERT INTO "qconv_measurement" VALUES(5,'conv2d:n=8:h=28:w=28:c=128:k=256:r=1:s=1:x_type=int8:w_type=int8:out_type=int8','{"family":"simt","tile_m":16,"tile_n":4,"tile_k":16,"thread_m":1,"thread_n":4,"pipeline_stages":1}','NVIDIA H200','sm_90a','nvrtc 13.0','d1','correct',NULL,'[2.0]',2.0,40,0,8704,812.5,'{"name": "events", "repeats": 9, "phase": "alone"}','2026-01-02T03:04:05.678901+00:00');
INSERT INTO "qconv_measurement" VALUES(6,'conv2d:n=1:h=14:w=14:c=64:k=64:r=3:s=3:pad=1,1,1,1:x_type=int8:w_type=int8:out_type=int8','{"family":"simt","tile_m":16,"tile_n":4,"tile_k":16,"thread_m":1,"thread_n":4,"pipeline_stages":2}','AMD Instinct MI300X','gfx942','hiprtc 7.0','4d195612a40833bd0143f8aca9c1ef70','correct',NULL,'[11.0, 10.1, 10.3]',10.3,40,0,8704,812.5,NULL,'2026-01-02T03:04:05.678901+00:00');
INSERT INTO "qconv_measurement" VALUES(7,'conv2d:n=1:h=14:w=14:c=64:k=64:r=3:s=3:pad=1,1,1,1:x_type=int8:w_type=int8:out_type=int8','{"family":"simt","tile_m":16,"tile_n":4,"tile_k":16,"thread_m":1,"thread_n":8,"pipeline_stages":1}','NVIDIA H200','sm_90a','nvrtc 13.0','d1','correct',NULL,'[11.0, 10.1, 10.3]',10.3,NULL,NULL,NULL,NULL,'{"name": "events", "repeats": 3}','2026-10-29T03:04:05.678901+00:00');
INSERT INTO "qconv_measurement" VALUES(8,'conv2d:n=8:h=28:w=28:c=128:k=256:r=1:s=1:x_type=int8:w_type=int8:out_type=int8','{"family":"simt","tile_m":16,"tile_n":4,"tile_k":16,"thread_m":1,"thread_n":8,"pipeline_stages":2}','NVIDIA H200','sm_90a','nvrtc 13.0','d1','timeout','it says why','[]',NULL,NULL,NULL,NULL,NULL,NULL,'2026-01-02T03:04:05.678901+00:00');
CREATE TABLE qconv_schema (
	version INTEGER NOT NULL, 
	PRIMARY KEY (version)
);
INSERT INTO "qconv_schema" VALUES(1);
CREATE INDEX qconv_measurement_best ON qconv_measurement (problem, device, target, outcome, median_us);
COMMIT;
