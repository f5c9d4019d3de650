"""Answers of `nvidia-smi -q -x`, under the names of today's drivers and of those of 2020."""

TODAY = """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">
<nvidia_smi_log>
 <driver_version>{driver}</driver_version><cuda_version>{cuda}</cuda_version>
 <attached_gpus>1</attached_gpus>
 <gpu id="00000000:00:04.0">
  <product_name>NVIDIA H100 80GB HBM3</product_name>
  <persistence_mode>{persistence}</persistence_mode>
  <uuid>GPU-11111111-aaaa</uuid>
  <mig_mode><current_mig>{mig}</current_mig><pending_mig>Disabled</pending_mig></mig_mode>
  <mig_devices>{instances}</mig_devices>
  <compute_mode>{compute}</compute_mode>
  <fb_memory_usage><total>81559 MiB</total><reserved>600 MiB</reserved><used>{used} MiB</used>
   <free>80000 MiB</free></fb_memory_usage>
  <ecc_errors><volatile><sram_uncorrectable_parity>0</sram_uncorrectable_parity>
   <dram_correctable>7</dram_correctable><dram_uncorrectable>{ecc}</dram_uncorrectable></volatile>
   <aggregate><dram_uncorrectable>3</dram_uncorrectable></aggregate></ecc_errors>
  <remapped_rows><remapped_row_pending>{pending}</remapped_row_pending></remapped_rows>
  <utilization><gpu_util>{busy} %</gpu_util></utilization>
  <temperature><gpu_temp>34 C</gpu_temp></temperature>
  <clocks_event_reasons>
   <clocks_event_reason_gpu_idle>Active</clocks_event_reason_gpu_idle>
   <clocks_event_reason_hw_thermal_slowdown>{thermal}</clocks_event_reason_hw_thermal_slowdown>
  </clocks_event_reasons>
  <gpu_power_readings><current_power_limit>{power} W</current_power_limit>
   <default_power_limit>700.00 W</default_power_limit></gpu_power_readings>
  <clocks><sm_clock>345 MHz</sm_clock></clocks>
  <applications_clocks><graphics_clock>{clock}</graphics_clock></applications_clocks>
  <default_applications_clocks><graphics_clock>1980 MHz</graphics_clock>
  </default_applications_clocks>
  <max_clocks><sm_clock>1980 MHz</sm_clock></max_clocks>
  <processes>{processes}</processes>
 </gpu>
</nvidia_smi_log>
"""

HEALTHY = {
    "driver": "580.159.04",
    "cuda": "13.0",
    "persistence": "Enabled",
    "mig": "Disabled",
    "instances": "None",
    "busy": "0",
    "compute": "Default",
    "used": "0",
    "ecc": "0",
    "pending": "No",
    "thermal": "Not Active",
    "power": "700.00",
    "clock": "1980 MHz",
    "processes": "",
}

# Driver 450: other names, no reserved memory, pages in place of rows, no limit called current.
OLD = """<?xml version="1.0" ?>
<nvidia_smi_log>
 <driver_version>450.51</driver_version><cuda_version>11.0</cuda_version>
 <gpu id="00000000:00:1E.0">
  <product_name>Tesla T4</product_name><persistence_mode>Disabled</persistence_mode>
  <mig_mode><current_mig>N/A</current_mig></mig_mode><compute_mode>Exclusive_Process</compute_mode>
  <fb_memory_usage><total>15109 MiB</total><used>14000 MiB</used></fb_memory_usage>
  <ecc_errors><volatile><double_bit><total>2</total></double_bit>
   <dram_uncorrectable>1</dram_uncorrectable></volatile></ecc_errors>
  <retired_pages><pending_retirement>Yes</pending_retirement></retired_pages>
  <temperature><gpu_temp>91 C</gpu_temp></temperature>
  <clocks_throttle_reasons>
   <clocks_throttle_reason_hw_thermal_slowdown>Active</clocks_throttle_reason_hw_thermal_slowdown>
   <clocks_throttle_reason_sw_power_cap>Active</clocks_throttle_reason_sw_power_cap>
  </clocks_throttle_reasons>
  <power_readings><power_limit>50.00 W</power_limit>
   <default_power_limit>70.00 W</default_power_limit></power_readings>
  <applications_clocks><graphics_clock>585 MHz</graphics_clock></applications_clocks>
  <default_applications_clocks><graphics_clock>1590 MHz</graphics_clock>
  </default_applications_clocks>
  <processes><process_info><pid>4711</pid><process_name>python train.py</process_name>
   <used_memory>13000 MiB</used_memory></process_info></processes>
 </gpu>
</nvidia_smi_log>
"""
